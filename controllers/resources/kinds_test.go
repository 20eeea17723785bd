// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

var (
	widgets = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	gadgets = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
)

func TestReflectedKindsAreValidated(t *testing.T) {
	if errs := (&VirtualKubelet{PullPolicy: "Always", ReflectedKinds: []string{"pods"}}).Validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--reflected-kinds") {
		t.Errorf("errors %v", errs)
	}
}

func TestAVirtualNodeTellsWhichKindsAreCopied(t *testing.T) {
	kind := func(group, version, resource string) v1alpha1.ReflectedKind {
		return v1alpha1.ReflectedKind{Group: group, Version: version, Resource: resource}
	}
	good := func() *host {
		h := newHost()
		h.virtual.CreationTimestamp = metav1.NewTime(now)
		h.virtual.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{kind("example.com", "v1", "widgets")}
		h.offer = &v1alpha1.ResourceOffer{Spec: v1alpha1.ResourceOfferSpec{ReflectedKinds: []metav1.GroupVersionResource{widgets}}}
		h.readable = []metav1.GroupVersionResource{widgets, gadgets}
		h.served = map[string]*metav1.APIResource{"widgets": {Namespaced: true}, "gadgets": {Namespaced: true}}
		return h
	}
	for _, test := range []struct {
		name           string
		change         func(*host)
		reason, says   string
		copied, absent bool
	}{
		{name: "all that is named", reason: ReasonKindsReflected, copied: true},
		{name: "not offered", change: func(h *host) { h.offer.Spec.ReflectedKinds = nil }, reason: ReasonKindNotOffered, says: "widgets.v1.example.com: the provider does not offer it."},
		{name: "no offer at all", change: func(h *host) { h.offer = nil }, reason: ReasonKindNotOffered},
		{name: "offered in another version", change: func(h *host) { h.offer.Spec.ReflectedKinds[0].Version = "v2" }, reason: ReasonKindNotOffered, says: "the provider offers version v2"},
		{name: "not for virtual kubelets to read", change: func(h *host) { h.readable = nil }, reason: ReasonKindNotAllowed, says: "reflection.kinds"},
		{name: "not served here", change: func(h *host) { h.served = nil }, reason: ReasonKindNotServed},
		{name: "not namespaced", change: func(h *host) { h.served["widgets"].Namespaced = false }, reason: ReasonKindNotNamespaced},
		{name: "one of two", change: func(h *host) {
			h.virtual.Spec.Reflection.Kinds = append(h.virtual.Spec.Reflection.Kinds, kind("example.com", "v1", "gadgets"))
		}, reason: ReasonKindNotOffered, says: "gadgets.v1.example.com: the provider does not offer it.", copied: true},
		{name: "a policy of a built-in kind", change: func(h *host) {
			h.virtual.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{kind("", "v1", "secrets")}
		}, reason: ReasonKindsReflected},
		{name: "nothing is named", change: func(h *host) { h.virtual.Spec.Reflection.Kinds = nil }, absent: true},
		{name: "an older one decides", change: func(h *host) {
			older := h.virtual.DeepCopy()
			older.Name, older.CreationTimestamp = "older", metav1.NewTime(now.Add(-time.Hour))
			h.siblings = []*v1alpha1.VirtualNode{older}
		}, reason: ReasonAnotherNodeDecides, says: "virtual node older of the same cluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := good()
			if test.change != nil {
				test.change(h)
			}
			h.pass(t)
			h.pass(t)
			condition := meta.FindStatusCondition(h.virtual.Status.Conditions, v1alpha1.ConditionKindsReflected)
			if (condition == nil) != test.absent {
				t.Fatalf("condition %+v", condition)
			}
			if condition != nil && (condition.Reason != test.reason || !strings.Contains(condition.Message, test.says) || !strings.HasSuffix(condition.Message, ".") ||
				(condition.Status == metav1.ConditionTrue) != (test.reason == ReasonKindsReflected)) {
				t.Errorf("condition %+v", condition)
			}
			var want []metav1.GroupVersionResource
			if test.copied {
				want = []metav1.GroupVersionResource{widgets}
			}
			if diff := cmp.Diff(want, h.virtual.Status.ReflectedKinds); diff != "" {
				t.Errorf("copied (-want +got):\n%s", diff)
			}
			h.expect(t)
		})
	}
}

func TestAVirtualNodeTellsWhichClassesCopiesMayName(t *testing.T) {
	h := newHost()
	for _, offer := range []*v1alpha1.ResourceOffer{
		{Spec: v1alpha1.ResourceOfferSpec{IngressClasses: []string{"lent"}, LoadBalancerClasses: []string{"example.com/lb"}}},
		{Spec: v1alpha1.ResourceOfferSpec{IngressClasses: []string{"other", "lent"}}},
		nil,
	} {
		var want v1alpha1.ResourceOfferSpec
		if h.offer = offer; offer != nil {
			want = offer.Spec
		}
		h.pass(t)
		h.pass(t)
		got := v1alpha1.ResourceOfferSpec{IngressClasses: h.virtual.Status.IngressClasses, LoadBalancerClasses: h.virtual.Status.LoadBalancerClasses}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
	}
}

// A cluster that cannot say what it serves does not have copies removed.
func TestWhatIsCopiedStaysWhileNobodyCanSay(t *testing.T) {
	h := newHost()
	h.virtual.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{{Group: "example.com", Version: "v1", Resource: "widgets"}}
	h.offer = &v1alpha1.ResourceOffer{Spec: v1alpha1.ResourceOfferSpec{ReflectedKinds: []metav1.GroupVersionResource{widgets}}}
	h.readable = []metav1.GroupVersionResource{widgets}
	h.served = map[string]*metav1.APIResource{"widgets": {Namespaced: true}}
	h.pass(t)
	h.pass(t)
	h.discovery = errors.New("no answer")
	if _, err := h.controller().reconcile(t.Context(), cache.ObjectName{Namespace: h.virtual.Namespace, Name: h.virtual.Name}); !errors.Is(err, h.discovery) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]metav1.GroupVersionResource{widgets}, h.virtual.Status.ReflectedKinds); diff != "" {
		t.Errorf("copied (-want +got):\n%s", diff)
	}
}
