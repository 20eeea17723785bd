// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestReservedKindsCannotBeConfigured(t *testing.T) {
	for _, test := range []struct{ name, group, version, resource, wrong string }{
		{"a custom kind", "cert-manager.io", "v1", "certificates", ""},
		{"one whose group ends like a forbidden one", "my-apps", "v1", "things", ""},
		{"pods", "", "v1", "pods", "group"},
		{"secrets, which are always reflected", "", "v1", "secrets", "group"},
		{"service accounts", "", "v1", "serviceaccounts", "group"},
		{"deployments", "apps", "v1", "deployments", "group"},
		{"jobs", "batch", "v1", "jobs", "group"},
		{"roles", "rbac.authorization.k8s.io", "v1", "rolebindings", "group"},
		{"webhooks", "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "group"},
		{"definitions", "apiextensions.k8s.io", "v1", "customresourcedefinitions", "group"},
		{"certificate requests", "certificates.k8s.io", "v1", "certificatesigningrequests", "group"},
		{"kinds of the federation", "federation.liqo.io", "v1alpha1", "shadowpods", "group"},
		{"kinds of another group of liqo.io", "offloading.liqo.io", "v1", "things", "group"},
		{"endpoints", "discovery.k8s.io", "v1", "endpointslices", "group"},
		{"imports", "multicluster.x-k8s.io", "v1alpha1", "serviceimports", "group"},
		{"leases", "coordination.k8s.io", "v1", "leases", "group"},
		{"a subresource", "example.com", "v1", "widgets/scale", "resource"},
		{"a status", "example.com", "v1", "widgets/status", "resource"},
		{"everything", "example.com", "v1", "*", "resource"},
		{"every group", "*", "v1", "widgets", "group"},
		{"no resource", "example.com", "v1", "", "resource"},
		{"no version", "example.com", "", "widgets", "version"},
		{"a path as a version", "example.com", "../v1", "widgets", "version"},
		{"an endless group", strings.Repeat("a", 300), "v1", "widgets", "group"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, want := field.NewPath("kinds"), ""
			if test.wrong != "" {
				want = "kinds[0]." + test.wrong
			}
			errs := ReflectedKinds([]metav1.GroupVersionResource{{Group: test.group, Version: test.version,
				Resource: test.resource}}, path)
			if len(errs) == 0 && want != "" {
				t.Fatalf("no errors, want %s", want)
			}
			for _, err := range errs {
				if err.Field != want || len(err.Error()) > 500 {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	twice := []metav1.GroupVersionResource{{Group: "example.com", Version: "v1", Resource: "widgets"},
		{Group: "example.com", Version: "v2", Resource: "widgets"}}
	if errs := ReflectedKinds(twice, nil); len(errs) != 1 || errs[0].Type != field.ErrorTypeDuplicate {
		t.Errorf("two versions of one kind: %v", errs)
	}
}

func TestValidateReflection(t *testing.T) {
	good := &federation.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan"},
		Spec: federation.VirtualNodeSpec{
			ClusterID: milanID, NodeName: "liqo-milan", Resources: quantities("cpu", "2"),
			Reflection: federation.VirtualNodeReflection{
				ExcludedLabels: []string{"team", "example.com/team"}, ExcludedAnnotations: []string{"example.com/cost"},
				Kinds: []federation.ReflectedKind{
					{Version: "v1", Resource: "secrets", Policy: federation.ReflectionAllowList, ExcludedLabels: []string{"owner"}},
					{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses", Policy: federation.ReflectionDenyList},
					{Group: "cert-manager.io", Version: "v1", Resource: "certificates"},
				},
			},
		},
	}
	first := func(change func(*federation.ReflectedKind)) func(*federation.VirtualNode) {
		return func(n *federation.VirtualNode) { change(&n.Spec.Reflection.Kinds[0]) }
	}
	runCreate(t, good, ValidateVirtualNode, map[string]wrong[*federation.VirtualNode]{
		"an unknown policy": {first(func(k *federation.ReflectedKind) { k.Policy = "Maybe" }), []string{"spec.reflection.kinds[0].policy"}},
		"another version":   {first(func(k *federation.ReflectedKind) { k.Version = "v2" }), []string{"spec.reflection.kinds[0].version"}},
		"pods":              {first(func(k *federation.ReflectedKind) { k.Resource = "pods" }), []string{"spec.reflection.kinds[0].group"}},
		"a subresource":     {first(func(k *federation.ReflectedKind) { k.Group, k.Resource = "example.com", "widgets/status" }), []string{"spec.reflection.kinds[0].resource"}},
		"a kind twice":      {first(func(k *federation.ReflectedKind) { k.Group, k.Resource = "cert-manager.io", "certificates" }), []string{"spec.reflection.kinds[2]"}},
		"too many kinds": {func(n *federation.VirtualNode) {
			n.Spec.Reflection.Kinds = make([]federation.ReflectedKind, maxKinds+1)
		}, []string{"spec.reflection.kinds"}},
		"a broken key":      {func(n *federation.VirtualNode) { n.Spec.Reflection.ExcludedLabels[0] = "a b" }, []string{"spec.reflection.excludedLabels[0]"}},
		"a key twice":       {func(n *federation.VirtualNode) { n.Spec.Reflection.ExcludedLabels[1] = "team" }, []string{"spec.reflection.excludedLabels[1]"}},
		"a key of liqo.io":  {func(n *federation.VirtualNode) { n.Spec.Reflection.ExcludedAnnotations[0] = "liqo.io/skip-reflection" }, []string{"spec.reflection.excludedAnnotations[0]"}},
		"a key of a kind":   {first(func(k *federation.ReflectedKind) { k.ExcludedAnnotations = []string{"offloading.liqo.io/origin"} }), []string{"spec.reflection.kinds[0].excludedAnnotations[0]"}},
		"a path as a label": {first(func(k *federation.ReflectedKind) { k.ExcludedLabels = []string{"a/b/c"} }), []string{"spec.reflection.kinds[0].excludedLabels[0]"}},
		"too many labels": {func(n *federation.VirtualNode) {
			n.Spec.Reflection.ExcludedLabels = many(maxExcluded, func(i int) string { return strings.Repeat("k", i+1) })
		}, []string{"spec.reflection.excludedLabels"}},
		"another group's ingresses without a version": {func(n *federation.VirtualNode) { n.Spec.Reflection.Kinds[1].Version = "" }, []string{"spec.reflection.kinds[1].version"}},
	})
}
