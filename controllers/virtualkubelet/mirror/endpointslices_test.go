// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/test/fakes"
)

func networkedNode(status metav1.ConditionStatus) *v1alpha1.VirtualNode {
	return &v1alpha1.VirtualNode{
		Status: v1alpha1.VirtualNodeStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionNetworkReady, Status: status}},
		},
	}
}

func webService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}
}

func webEndpoints() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      "web-abcde",
			Labels:    map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.1.0.1"}, NodeName: ptr.To("rome-worker")},
			{Addresses: []string{"10.2.0.1"}, NodeName: ptr.To("liqo-milan")},
		},
	}
}

// awaitEndpoints waits until milan has a ShadowEndpointSlice with one endpoint, or none.
func (r *reflecting) awaitEndpoints(t *testing.T, reflected bool) {
	t.Helper()
	err := kittest.Poll(t, func(ctx context.Context) (bool, error) {
		slice, err := r.federation.FederationV1alpha1().
			ShadowEndpointSlices("shop-rome").
			Get(ctx, "web-abcde", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return !reflected, nil
		}
		return reflected && err == nil && len(slice.Spec.Endpoints) == 1 &&
			slice.Spec.Endpoints[0].Addresses[0] == "10.1.0.1", err
	})
	if err != nil {
		t.Fatalf("endpoints exist: %t: %v", !reflected, err)
	}
}

func TestEndpointsFollowTheirServiceWhileThereIsANetwork(t *testing.T) {
	r := newReflecting(t, []runtime.Object{webService(), webEndpoints()}, nil)
	r.node.Store(networkedNode(metav1.ConditionTrue))
	r.start(t)
	r.awaitEndpoints(t, true)

	turn := func(status metav1.ConditionStatus) {
		t.Helper()
		r.node.Store(networkedNode(status))
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	turn(metav1.ConditionFalse)
	r.awaitEndpoints(t, false)
	turn(metav1.ConditionTrue)
	r.awaitEndpoints(t, true)

	excluded := webService()
	excluded.Annotations = map[string]string{v1alpha1.AnnotationSkipReflection: ""}
	if _, err := r.rome.CoreV1().Services("shop").Update(t.Context(), excluded, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitEndpoints(t, false)
	if _, err := r.rome.CoreV1().Services("shop").Update(
		t.Context(), webService(), metav1.UpdateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	r.awaitEndpoints(t, true)
	if err := r.rome.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitEndpoints(t, false)
}

// The default of the maximum number of watches of a peer depends on these resources.
func TestResourcesWatchedForReflection(t *testing.T) {
	r := newReflecting(t, []runtime.Object{webService(), webEndpoints()}, nil)
	r.node.Store(networkedNode(metav1.ConditionTrue))
	r.start(t)
	ofKubernetes := []string{
		"shop-rome/configmaps", "shop-rome/ingresses", "shop-rome/secrets", "shop-rome/services",
	}
	err := kittest.Poll(t, func(context.Context) (bool, error) {
		return slices.Equal(fakes.Watched(r.federation.Actions()), []string{"shop-rome/shadowendpointslices"}) &&
			slices.Equal(fakes.Watched(r.milan.Actions()), ofKubernetes), nil
	})
	if err != nil {
		t.Errorf("%v: watched: %v, %v", err, fakes.Watched(r.federation.Actions()), fakes.Watched(r.milan.Actions()))
	}
}

// endpoints returns the reflector of the namespace's EndpointSlices.
func (r *reflecting) endpoints() reflector {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.namespaces["shop"].kinds["endpointslices"]
}

// awaitRest waits until the EndpointSlices are not watched any more.
func (r *reflecting) awaitRest(t *testing.T, watching *endpointSlices) {
	t.Helper()
	if err := kittest.Poll(t, func(context.Context) (bool, error) {
		return r.endpoints() == reflector(withdrawn{}) &&
			(watching == nil || watching.local.IsStopped() && watching.reflected.IsStopped()), nil
	}); err != nil {
		t.Fatalf("endpoints are watched: %T: %v", r.endpoints(), err)
	}
}

func TestEndpointsAreNotReflectedWithoutANetwork(t *testing.T) {
	for name, node := range map[string]*v1alpha1.VirtualNode{
		"unknown": {}, "no network": networkedNode(metav1.ConditionFalse),
	} {
		t.Run(name, func(t *testing.T) {
			r := newReflecting(t, []runtime.Object{webService(), webEndpoints()}, nil)
			r.node.Store(node)
			r.start(t)
			r.awaitRest(t, nil)
			for _, action := range r.federation.Actions() {
				if action.GetVerb() == "create" {
					t.Errorf("%+v", action)
				}
			}
		})
	}
}

func TestEndpointsAreWatchedOnlyWhileThereIsANetwork(t *testing.T) {
	r := newReflecting(t, []runtime.Object{webService(), webEndpoints()}, nil)
	r.node.Store(networkedNode(metav1.ConditionFalse))
	r.start(t)
	r.awaitRest(t, nil)
	for range 2 {
		r.node.Store(networkedNode(metav1.ConditionTrue))
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.awaitEndpoints(t, true)
		watching := r.endpoints().(*endpointSlices)
		r.node.Store(networkedNode(metav1.ConditionFalse))
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.awaitEndpoints(t, false)
		if watching.local.IsStopped() {
			t.Error("the watch ended before endingGrace")
		}
		// endingGrace has passed.
		watching.ending.Store(&time.Time{})
		r.EnqueueAll()
		r.awaitRest(t, watching)
	}
}

func TestLeftEndpointsAreDeletedWithoutANetwork(t *testing.T) {
	r := newReflecting(t, []runtime.Object{webService(), webEndpoints()}, nil)
	left := translate.EndpointSlice(webEndpoints(), "shop-rome", destination, r.View)
	if _, err := r.federation.FederationV1alpha1().
		ShadowEndpointSlices("shop-rome").
		Create(t.Context(), left, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.node.Store(networkedNode(metav1.ConditionFalse))
	r.start(t)
	r.awaitEndpoints(t, false)
	r.awaitRest(t, nil)
}

func TestEndpointOnAnotherProviderIsReflectedWhenItHasAnAddress(t *testing.T) {
	slice := webEndpoints()
	slice.Endpoints[0].NodeName, slice.Endpoints[0].Addresses = ptr.To("liqo-naples"), []string{"10.3.0.1"}
	r := newReflecting(t, []runtime.Object{webService(), slice}, nil)
	r.node.Store(networkedNode(metav1.ConditionTrue))
	known := make(chan struct{})
	r.View.Address = func(address string) (string, bool) {
		select {
		case <-known:
			return "10.1.0.1", address == "10.3.0.1"
		default:
			return "", false
		}
	}
	r.start(t)
	err := kittest.Poll(t, func(context.Context) (bool, error) {
		one, ok := r.endpoints().(*endpointSlices)
		return ok && one.synced(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.awaitEndpoints(t, false)
	close(known)
	r.EnqueueEndpoints("10.9.9.9")
	r.EnqueueEndpoints("10.3.0.1")
	r.awaitEndpoints(t, true)
}
