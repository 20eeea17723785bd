// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			if diff := cmp.Diff(test.want, PolicyOf(spec, test.of)); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(Policy{}, PolicyOf(&v1alpha1.VirtualNodeReflection{}, corev1.Resource("secrets"))); diff != "" {
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
