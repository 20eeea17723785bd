// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func ingress(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
	backend := networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"}},
	}
	i := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "7"},
		Spec: networkingv1.IngressSpec{
			IngressClassName: ptr.To("rome"),
			DefaultBackend:   &backend,
			TLS:              []networkingv1.IngressTLS{{Hosts: []string{"shop.example.com"}, SecretName: "key"}},
			Rules: []networkingv1.IngressRule{
				{Host: "shop.example.com",
					IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
						Paths: []networkingv1.HTTPIngressPath{
							{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: backend},
						},
					}}},
			},
		},
		Status: networkingv1.IngressStatus{
			LoadBalancer: networkingv1.IngressLoadBalancerStatus{
				Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}},
			},
		},
	}
	if change != nil {
		change(i)
	}
	return i
}

func TestIngressHasTheClassOfTheProvider(t *testing.T) {
	local := ingress(func(i *networkingv1.Ingress) {
		i.Annotations = map[string]string{"kubernetes.io/ingress.class": "rome", "example.com/note": "x"}
	})
	before := local.DeepCopy()
	want := ingress(func(i *networkingv1.Ingress) {
		i.ObjectMeta = copied("web", func(m *metav1.ObjectMeta) {
			m.Annotations["example.com/note"], m.Annotations["offloading.liqo.io/reflected-keys"] = "x",
				";example.com/note"
		})
		i.Spec.IngressClassName, i.Status = nil, networkingv1.IngressStatus{}
	})
	got := Ingress(local, "shop-rome", destination)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reflected object (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, local); diff != "" {
		t.Errorf("the local one was changed:\n%s", diff)
	}
	skipped := ingress(
		func(i *networkingv1.Ingress) { i.Annotations = map[string]string{"liqo.io/skip-reflection": "true"} },
	)
	if got := Ingress(skipped, "shop-rome", destination); got != nil {
		t.Errorf("an excluded object is reflected: %v", got)
	}
}

func TestIngressClassIsOneThatTheProviderOffers(t *testing.T) {
	to := destination
	to.Classes = Classes{Ingress: []string{"offered", "rome"}, LoadBalancer: []string{"example.com/lb"}}
	for name, test := range map[string]struct {
		change func(*networkingv1.Ingress)
		want   string
	}{
		"a class that is offered": {want: "rome"},
		"a class that is not offered": {
			change: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = ptr.To("other") }, want: "offered",
		},
		"none": {
			change: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = nil }, want: "offered",
		},
		"an offered class in the annotation": {change: named("rome"), want: "rome"},
		"another class in the annotation":    {change: named("other"), want: "offered"},
	} {
		t.Run(name, func(t *testing.T) {
			desired := Ingress(ingress(test.change), "shop-rome", to)
			if got := ptr.Deref(
				desired.Spec.IngressClassName,
				"",
			); got != test.want ||
				desired.Annotations[annotationIngressClass] != "" {
				t.Errorf(
					"class %q, annotation %q, want %q",
					got,
					desired.Annotations[annotationIngressClass],
					test.want,
				)
			}
			existing := desired.DeepCopy()
			existing.Spec.IngressClassName = ptr.To("before")
			if change := UpdateIngress(existing, desired); change != Update ||
				*existing.Spec.IngressClassName != test.want {
				t.Errorf("change %d leaves the class %s", change, *existing.Spec.IngressClassName)
			}
		})
	}
}

// named sets the class of an Ingress in its annotation only.
func named(class string) func(*networkingv1.Ingress) {
	return func(i *networkingv1.Ingress) {
		i.Spec.IngressClassName = nil
		i.Annotations = map[string]string{annotationIngressClass: class}
	}
}

func TestUpdateIngressKeepsTheClassAndTheStatus(t *testing.T) {
	for _, test := range []struct {
		name  string
		after func(*networkingv1.Ingress)
		drift func(*networkingv1.Ingress)
		want  Change
	}{
		{name: "nothing"},
		{
			name:  "the local class",
			after: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = ptr.To("other") },
		},
		{name: "a rule", after: func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "example.com" }, want: Update},
		{name: "a certificate", after: func(i *networkingv1.Ingress) { i.Spec.TLS = nil }, want: Update},
		{name: "drift", drift: func(i *networkingv1.Ingress) { i.Spec.DefaultBackend = nil }, want: Update},
		{
			name:  "an annotation",
			after: func(i *networkingv1.Ingress) { i.Annotations = map[string]string{"example.com/note": "x"} },
			want:  Update,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing, desired := Ingress(
				ingress(nil),
				"shop-rome",
				destination,
			), Ingress(
				ingress(test.after),
				"shop-rome",
				destination,
			)
			existing.Spec.IngressClassName, existing.Status = ptr.To("milan"), ingress(nil).Status
			if test.drift != nil {
				test.drift(existing)
			}
			if got := UpdateIngress(existing, desired); got != test.want {
				t.Fatalf("change %d, want %d", got, test.want)
			}
			desired.Spec.IngressClassName, desired.Status = ptr.To("milan"), ingress(nil).Status
			if diff := cmp.Diff(desired, existing); diff != "" {
				t.Errorf("reflected object (-want +got):\n%s", diff)
			}
		})
	}
}
