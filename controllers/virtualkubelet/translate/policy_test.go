// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPolicySelectsReflectedObjects(t *testing.T) {
	const skip, allow = v1alpha1.AnnotationSkipReflection, v1alpha1.AnnotationAllowReflection
	for _, test := range []struct {
		name        string
		annotations map[string]string
		deny, allow bool
	}{
		{"no annotation", nil, true, false},
		{"excluded", map[string]string{skip: ""}, false, false},
		{"not excluded", map[string]string{skip: "false"}, true, false},
		{"allowed", map[string]string{allow: ""}, true, true},
		{"allowed with a value", map[string]string{allow: "true"}, true, true},
		{"not allowed", map[string]string{allow: "false"}, true, false},
		{"allowed and excluded", map[string]string{allow: "true", skip: "true"}, false, false},
		{"allowed and not excluded", map[string]string{allow: "true", skip: "false"}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			local := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if got := (Policy{}).Reflects(local); got != test.deny {
				t.Errorf("DenyList reflects the object: %v", got)
			}
			if got := (Policy{AllowList: true}).Reflects(local); got != test.allow {
				t.Errorf("AllowList reflects the object: %v", got)
			}
		})
	}
}

// Objects of every kind, which the policy and the translation decide about.
func TestObjectsAreReflectedOnlyToTheClustersOfTheirAnnotation(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: "object", Labels: map[string]string{discoveryv1.LabelServiceName: "object"},
		Annotations: map[string]string{v1alpha1.AnnotationReflectTo: "turin-id,milan-id"},
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	widget.SetName(meta.Name)
	widget.SetAnnotations(meta.Annotations)
	for kind, reflected := range map[string]func(to Destination) metav1.Object{
		"ConfigMap": func(to Destination) metav1.Object {
			return orNil(ConfigMap(&corev1.ConfigMap{ObjectMeta: meta}, "shop-rome", to))
		},
		"Secret": func(to Destination) metav1.Object {
			return orNil(Secret(&corev1.Secret{ObjectMeta: meta}, "shop-rome", to))
		},
		"Service": func(to Destination) metav1.Object {
			return orNil(Service(&corev1.Service{ObjectMeta: meta}, "shop-rome", to))
		},
		"Ingress": func(to Destination) metav1.Object {
			return orNil(Ingress(&networkingv1.Ingress{ObjectMeta: meta}, "shop-rome", to))
		},
		"Widget": func(to Destination) metav1.Object { return orNil(Configured(widget, "shop-rome", to)) },
	} {
		t.Run(kind, func(t *testing.T) {
			got := reflected(Destination{OriginID: "rome-id", DestinationID: "milan-id"})
			if got == nil {
				t.Fatal("it is not reflected to milan")
			}
			if value, ok := got.GetAnnotations()[v1alpha1.AnnotationReflectTo]; ok {
				t.Errorf("milan receives the IDs of other clusters: %s", value)
			}
			if reflected(Destination{OriginID: "rome-id", DestinationID: "naples-id"}) != nil {
				t.Error("it is reflected to naples")
			}
		})
	}
	service, slice := &corev1.Service{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "object-1", Labels: meta.Labels,
	}}
	for cluster, want := range map[string]bool{"milan-id": true, "naples-id": false} {
		policy := PolicyOf(&v1alpha1.VirtualNodeReflection{}, corev1.Resource("services"), cluster)
		if got := policy.Reflects(service); got != want {
			t.Errorf("the policy for %s reflects the Service: %t", cluster, got)
		}
		if got := ReflectsEndpoints(policy, policy, service, slice); got != want {
			t.Errorf("the policy for %s reflects the EndpointSlice: %t", cluster, got)
		}
	}
}

// orNil returns nil for a nil pointer.
func orNil[T any, P interface {
	*T
	metav1.Object
}](object P) metav1.Object {
	if object == nil {
		return nil
	}
	return object
}

func TestPolicyOfAKindExtendsThePolicyOfAllKinds(t *testing.T) {
	spec := &v1alpha1.VirtualNodeReflection{
		ExcludedLabels: []string{"team"}, ExcludedAnnotations: []string{"cost"},
		Kinds: []v1alpha1.ReflectedKind{
			{
				Version: "v1", Resource: "secrets", Policy: v1alpha1.ReflectionAllowList,
				ExcludedLabels: []string{"owner"},
			},
			{Group: "example.com", Version: "v1", Resource: "services", ExcludedAnnotations: []string{"shape"}},
			{Version: "v1", Resource: "configmaps", Policy: v1alpha1.ReflectionDenyList},
		},
	}
	everywhere := Policy{ExcludedLabels: []string{"team"}, ExcludedAnnotations: []string{"cost"}}
	for _, test := range []struct {
		name string
		of   schema.GroupResource
		want Policy
	}{
		{
			"kind with a policy", corev1.Resource("secrets"),
			Policy{AllowList: true, ExcludedLabels: []string{"team", "owner"}, ExcludedAnnotations: []string{"cost"}},
		},
		{"kind with the default policy", corev1.Resource("configmaps"), everywhere},
		{"kind without a policy", corev1.Resource("ingresses"), everywhere},
		{"core Services", corev1.Resource("services"), everywhere},
		{
			"Services of another API group", schema.GroupResource{Group: "example.com", Resource: "services"},
			Policy{ExcludedLabels: []string{"team"}, ExcludedAnnotations: []string{"cost", "shape"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, PolicyOf(spec, test.of, "")); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
	none := PolicyOf(&v1alpha1.VirtualNodeReflection{}, corev1.Resource("secrets"), "")
	if diff := cmp.Diff(Policy{}, none); diff != "" {
		t.Errorf("policy of a kind without an entry (-want +got):\n%s", diff)
	}
}

func TestExcludedKeysAreRemovedFromReflectedObjects(t *testing.T) {
	local := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "settings",
		Labels: map[string]string{"app": "web", "team": "a"}, Annotations: map[string]string{"cost": "7", "note": "x"},
	}}
	before := local.DeepCopy()
	existing := ConfigMap(local, "shop-rome", Destination{OriginID: "rome", DestinationID: "milan"})
	policy := Policy{ExcludedLabels: []string{"team", "absent"}, ExcludedAnnotations: []string{"cost"}}
	desired := ConfigMap(Strip(policy, local), "shop-rome", Destination{OriginID: "rome", DestinationID: "milan"})
	if diff := cmp.Diff(before, local); diff != "" {
		t.Errorf("the local object was changed:\n%s", diff)
	}
	if change := UpdateConfigMap(existing, desired); change != Update {
		t.Errorf("change %v", change)
	}
	if labels := existing.Labels; labels["team"] != "" || labels["app"] != "web" ||
		labels[v1alpha1.LabelOrigin] != "rome" {
		t.Errorf("labels %v", labels)
	}
	if annotations := existing.Annotations; annotations["cost"] != "" || annotations["note"] != "x" {
		t.Errorf("annotations %v", annotations)
	}
}
