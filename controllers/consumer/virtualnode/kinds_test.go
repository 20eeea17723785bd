// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

var widgets = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func TestReflectedKindsAreValidated(t *testing.T) {
	options := VirtualKubelet{PullPolicy: "Always", ReflectedKinds: []string{"pods"}}
	if errs := options.Validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--reflection-kinds") {
		t.Errorf("errors %v", errs)
	}
}

// newKindsWorld returns a world whose virtual node, offer and cluster have the kind widgets.
func newKindsWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.changeVirtual(func(virtual *v1alpha1.VirtualNode) {
		virtual.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{
			{Group: "example.com", Version: "v1", Resource: "widgets"},
		}
	})
	w.setOffer(
		&v1alpha1.ResourceOffer{
			Spec: v1alpha1.ResourceOfferSpec{ReflectedKinds: []metav1.GroupVersionResource{widgets}},
		},
	)
	w.VirtualKubelet.ReflectedKinds = []string{"widgets.v1.example.com", "gadgets.v1.example.com"}
	w.resources = []metav1.APIResource{{Name: "widgets", Namespaced: true}, {Name: "gadgets", Namespaced: true}}
	return w
}

func TestVirtualNodeReportsTheReflectedKinds(t *testing.T) {
	kinds := func(w *world, kinds ...v1alpha1.ReflectedKind) {
		w.changeVirtual(func(virtual *v1alpha1.VirtualNode) { virtual.Spec.Reflection.Kinds = kinds })
	}
	offered := func(w *world, kinds ...metav1.GroupVersionResource) {
		w.setOffer(&v1alpha1.ResourceOffer{Spec: v1alpha1.ResourceOfferSpec{ReflectedKinds: kinds}})
	}
	const both = "it must be in the provider's policy.reflectedKinds, and the provider must serve it."
	for _, test := range []struct {
		name              string
		change            func(*world)
		reason, contains  string
		reflected, absent bool
	}{
		{name: "all kinds", reason: ReasonKindsReflected, reflected: true},
		{name: "not offered", change: func(w *world) { offered(w) }, reason: ReasonKindNotOffered,
			contains: "widgets.v1.example.com: the provider does not offer it: " + both},
		{name: "no offer", change: func(w *world) { w.setOffer(nil) }, reason: ReasonKindNotOffered},
		{name: "offered in another version", change: func(w *world) {
			offered(w, metav1.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"})
		}, reason: ReasonKindNotOffered, contains: "the provider offers version v2"},
		{name: "not allowed", change: func(w *world) { w.VirtualKubelet.ReflectedKinds = nil },
			reason:   ReasonKindNotAllowed,
			contains: "reflection.kinds"},
		{name: "not served", change: func(w *world) { w.resources = nil }, reason: ReasonKindNotServed},
		{name: "not namespaced", change: func(w *world) { w.resources[0].Namespaced = false },
			reason: ReasonKindNotNamespaced},
		{name: "one of two", change: func(w *world) {
			kinds(w, v1alpha1.ReflectedKind{Group: "example.com", Version: "v1", Resource: "widgets"},
				v1alpha1.ReflectedKind{Group: "example.com", Version: "v1", Resource: "gadgets"})
		}, reason: ReasonKindNotOffered, reflected: true,
			contains: "gadgets.v1.example.com: the provider does not offer it: " + both},
		{name: "a policy of a built-in kind", change: func(w *world) {
			kinds(w, v1alpha1.ReflectedKind{Version: "v1", Resource: "secrets"})
		}, reason: ReasonKindsReflected},
		{name: "no kind", change: func(w *world) { kinds(w) }, absent: true},
		{name: "an older virtual node decides", change: func(w *world) {
			w.Add(&v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: peer, Name: "older",
					CreationTimestamp: metav1.NewTime(kittest.Epoch.Add(-time.Hour))},
				Spec: v1alpha1.VirtualNodeSpec{ClusterID: milanID},
			})
		}, reason: ReasonOverriddenByOlderVirtualNode, contains: "virtual node older of the same cluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newKindsWorld(t)
			if test.change != nil {
				test.change(w)
			}
			w.deploy()
			condition := w.condition(v1alpha1.ConditionKindsReflected)
			if (condition == nil) != test.absent {
				t.Fatalf("condition %+v", condition)
			}
			if condition != nil && (condition.Reason != test.reason ||
				!strings.Contains(condition.Message, test.contains) ||
				!strings.HasSuffix(condition.Message, ".") ||
				(condition.Status == metav1.ConditionTrue) != (test.reason == ReasonKindsReflected)) {
				t.Errorf("condition %+v", condition)
			}
			var want []metav1.GroupVersionResource
			if test.reflected {
				want = []metav1.GroupVersionResource{widgets}
			}
			if diff := cmp.Diff(want, w.virtual().Status.ReflectedKinds); diff != "" {
				t.Errorf("reflected (-want +got):\n%s", diff)
			}
			w.expect()
		})
	}
}

func TestVirtualNodeReportsTheClassesOfItsOffer(t *testing.T) {
	w := newWorld(t)
	for _, offer := range []*v1alpha1.ResourceOffer{
		{Spec: v1alpha1.ResourceOfferSpec{IngressClasses: []string{"shared"},
			LoadBalancerClasses: []string{"example.com/lb"}}},
		{Spec: v1alpha1.ResourceOfferSpec{IngressClasses: []string{"other", "shared"}}},
		nil,
	} {
		var want v1alpha1.ResourceOfferSpec
		w.setOffer(offer)
		if offer != nil {
			want.IngressClasses, want.LoadBalancerClasses = offer.Spec.IngressClasses, offer.Spec.LoadBalancerClasses
		}
		w.deploy()
		status := w.virtual().Status
		got := v1alpha1.ResourceOfferSpec{IngressClasses: status.IngressClasses,
			LoadBalancerClasses: status.LoadBalancerClasses}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
	}
}

func TestVirtualNodeReportsTheStorageOfItsAcceptedOffer(t *testing.T) {
	accepted := &v1alpha1.ResourceOffer{
		Spec:   v1alpha1.ResourceOfferSpec{StorageClasses: []string{"fast"}, Storage: list("requests.storage", "10Gi")},
		Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted},
	}
	with := func(change func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
		changed := accepted.DeepCopy()
		change(changed)
		return changed
	}
	for name, test := range map[string]struct {
		offer  *v1alpha1.ResourceOffer
		stored bool
	}{
		"accepted":     {accepted, true},
		"not accepted": {with(func(o *v1alpha1.ResourceOffer) { o.Status.Phase = "" }), false},
		"withdrawn":    {with(func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true }), false},
		"no storage":   {with(func(o *v1alpha1.ResourceOffer) { o.Spec.Storage = nil }), false},
		"no offer":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.changeVirtual(func(virtual *v1alpha1.VirtualNode) {
				virtual.Status.StorageClasses, virtual.Status.Storage = []string{"old"}, list("requests.storage", "1")
			})
			w.setOffer(test.offer)
			w.deploy()
			want := v1alpha1.VirtualNodeStatus{}
			if test.stored {
				want.Storage, want.StorageClasses = list("requests.storage", "10Gi"), []string{"fast"}
			}
			status := w.virtual().Status
			got := v1alpha1.VirtualNodeStatus{Storage: status.Storage, StorageClasses: status.StorageClasses}
			if !equality.Semantic.DeepEqual(want, got) {
				t.Errorf("storage (-want +got):\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// A failure of discovery must not have reflected objects deleted.
func TestReflectedKindsStayWhileDiscoveryFails(t *testing.T) {
	w := newKindsWorld(t)
	w.deploy()
	w.failure = errors.New("no answer")
	w.Cluster.Clock.Step(kit.ServedKindsInterval)
	if _, err := w.pass(); !errors.Is(err, w.failure) {
		t.Errorf("error %v, want %v", err, w.failure)
	}
	if diff := cmp.Diff([]metav1.GroupVersionResource{widgets}, w.virtual().Status.ReflectedKinds); diff != "" {
		t.Errorf("reflected (-want +got):\n%s", diff)
	}
}
