// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/reservation/podquota"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/test/registrytest"
)

// remotes has the consumer of each remote namespace. Namespace unlabelled has no label that names its consumer.
var remotes = map[string]string{
	"web": "milan", "shop": "milan", "lab": "turin", "field": "siena", "forest": "pisa", "unlabelled": "",
}

func consumerOf(_ context.Context, namespace string) (string, bool, error) {
	consumer, remote := remotes[namespace]
	return consumer, remote, nil
}

// limits are the limits for pods of each consumer.
var limits = map[string]*v1alpha1.PodPolicy{
	"siena": {Tolerations: []string{"nvidia.com/*"}, MaxGracePeriodSeconds: ptr.To[int64](300)},
	"pisa":  {Limits: v1alpha1.PodLimitsRequired},
}

func limitsOf(_ context.Context, consumer string) (*v1alpha1.PodPolicy, error) {
	return limits[consumer], nil
}

// server is an API server in a test. Several may use the same etcd.
type server struct {
	pods   *REST
	status *store.StatusREST
	offers registrytest.Offers
	quotas *podquota.Quotas
	stop   func()
}

func start(t testing.TB, endpoint string, alone bool) *server {
	t.Helper()
	scheme, options := registrytest.Options(endpoint)
	s := &server{}
	var err error
	if s.quotas, err = podquota.Open(options, alone); err != nil {
		t.Fatal(err)
	}
	if s.pods, s.status, err = New(s.quotas, consumerOf, limitsOf)(scheme, options); err != nil {
		t.Fatal(err)
	}
	s.offers = registrytest.NewOffers(t, scheme, options)
	s.stop = registrytest.Run(t, s.quotas, []interface{ Destroy() }{s.pods, s.offers},
		func(ctx context.Context) { s.quotas.Run(ctx, s.pods) }, s.pods.Tend)
	return s
}

func in(ctx context.Context, namespace string) context.Context {
	return genericapirequest.WithNamespace(ctx, namespace)
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// offer creates a ResourceOffer that the consumer has accepted.
func (s *server) offer(t testing.TB, consumer, name string, resources corev1.ResourceList) {
	t.Helper()
	s.offers.Accepted(t, consumer, name, federation.ResourceOfferSpec{Resources: resources})
}

func shadowPod(namespace, name string, requests corev1.ResourceList) *federation.ShadowPod {
	return &federation.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: federation.ShadowPodSpec{Pod: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "main", Image: "example.org/main:1",
				Resources: corev1.ResourceRequirements{Requests: requests}}},
		}},
	}
}

func (s *server) create(ctx context.Context, namespace, name string, requests corev1.ResourceList) error {
	_, err := s.pods.Create(in(ctx, namespace), shadowPod(namespace, name, requests), rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{})
	return err
}

// resize updates the requests of a shadow pod.
func (s *server) resize(
	ctx context.Context, namespace, name string, requests corev1.ResourceList, options *metav1.UpdateOptions,
) error {
	_, _, err := s.pods.Update(in(ctx, namespace), name, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*federation.ShadowPod)
			changed.Spec.Pod.Containers[0].Resources.Requests = requests
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, options)
	return err
}

// settle clears status.allocatedResources of a shadow pod, like the provider's controller after it has resized the pod.
func (s *server) settle(ctx context.Context, namespace, name string) error {
	_, _, err := s.status.Update(in(ctx, namespace), name,
		rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*federation.ShadowPod)
			changed.Status.AllocatedResources = nil
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// finish sets the phase of a shadow pod to Succeeded.
func (s *server) finish(ctx context.Context, namespace, name string) error {
	_, _, err := s.status.Update(in(ctx, namespace), name,
		rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*federation.ShadowPod)
			changed.Status.Phase = corev1.PodSucceeded
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// remove deletes a shadow pod and removes its finalizers.
func (s *server) remove(ctx context.Context, namespace, name string) error {
	ctx = in(ctx, namespace)
	if _, _, err := s.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.release(ctx, namespace, name)
}

// release removes the finalizers of a shadow pod.
func (s *server) release(ctx context.Context, namespace, name string) error {
	_, _, err := s.pods.Update(in(ctx, namespace), name, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*federation.ShadowPod)
			changed.Finalizers = nil
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

func (s *server) mustCreate(t *testing.T, namespace, name string, requests corev1.ResourceList) {
	t.Helper()
	if err := s.create(t.Context(), namespace, name, requests); err != nil {
		t.Fatalf("%s/%s: %v", namespace, name, err)
	}
}

func (s *server) mustRefuse(t *testing.T, namespace, name string, requests corev1.ResourceList, messages ...string) {
	t.Helper()
	err := s.create(t.Context(), namespace, name, requests)
	if err == nil {
		t.Fatalf("%s/%s is created", namespace, name)
	}
	for _, message := range messages {
		if !strings.Contains(err.Error(), message) {
			t.Fatalf("%s/%s: got %v, want %q", namespace, name, err, message)
		}
	}
}

func named(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
