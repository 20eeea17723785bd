// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/etcd"
)

func TestConsumerStoresAtMostMaxSlicesInAllItsRemoteNamespaces(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	remotes := []string{"shop-rome", "web-rome"}
	stored, _, err := ShadowEndpointSlices(func(_ context.Context, namespace string) ([]string, error) {
		if namespace == "lab-milan" {
			return []string{namespace}, nil
		}
		return remotes, nil
	}).Storage(scheme,
		etcd.NewOptions(etcd.Start(t), serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.SchemeGroupVersion)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stored.Destroy)
	// create retries while the watch cache is not initialized, for which the store returns TooManyRequests.
	create := func(namespace, name string) error {
		var err error
		waitErr := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true,
			func(ctx context.Context) (bool, error) {
				_, err = stored.Create(genericapirequest.WithNamespace(ctx, namespace), &federation.ShadowEndpointSlice{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
					Spec:       federation.ShadowEndpointSliceSpec{AddressType: discoveryv1.AddressTypeIPv4},
				}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				return !apierrors.IsTooManyRequests(err), nil
			})
		if waitErr != nil {
			return waitErr
		}
		return err
	}
	const writers = 10
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range maxSlices / writers {
				if err := create(remotes[i%2], fmt.Sprintf("slice-%d-%d", w, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	// The limit counts objects in the watch cache, which may lag behind etcd.
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			return apierrors.IsForbidden(create("web-rome", fmt.Sprintf("more-%d", time.Now().UnixNano()))), nil
		}); err != nil {
		t.Error("slices beyond the limit are created")
	}
	if err := create("lab-milan", "another"); err != nil {
		t.Errorf("creating a slice of another consumer: %v", err)
	}

	orphan := &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}
	if _, _, err := stored.Delete(genericapirequest.WithNamespace(t.Context(), "web-rome"), "slice-0-1",
		rest.ValidateAllObjectFunc, orphan); !apierrors.IsBadRequest(err) {
		t.Errorf("deleting a slice that orphans its EndpointSlice: %v", err)
	}
}
