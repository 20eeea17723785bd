// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// Policy says which objects of a kind are copied, and what their copies are
// not labelled and annotated with. The zero value is DenyList and leaves
// nothing out.
type Policy struct {
	// AllowList copies only what is sent by an annotation.
	AllowList bool
	// ExcludedLabels and ExcludedAnnotations are the keys that copies do not
	// have.
	ExcludedLabels, ExcludedAnnotations []string
}

// PolicyOf is what is said about one kind, and about all.
func PolicyOf(said *v1alpha1.VirtualNodeReflection, of schema.GroupResource) Policy {
	policy := Policy{ExcludedLabels: said.ExcludedLabels, ExcludedAnnotations: said.ExcludedAnnotations}
	for _, kind := range said.Kinds {
		if kind.Group == of.Group && kind.Resource == of.Resource {
			policy.AllowList = kind.Policy == v1alpha1.ReflectionAllowList
			policy.ExcludedLabels = slices.Concat(policy.ExcludedLabels, kind.ExcludedLabels)
			policy.ExcludedAnnotations = slices.Concat(policy.ExcludedAnnotations, kind.ExcludedAnnotations)
		}
	}
	return policy
}

// Sends tells whether an object is to be copied. What its owner keeps home
// stays there under either policy.
func (p Policy) Sends(local metav1.Object) bool {
	if reflection.StaysHome(local) {
		return false
	}
	allow, annotated := local.GetAnnotations()[v1alpha1.AnnotationAllowReflection]
	return !p.AllowList || annotated && allow != "false"
}

// Strip is the object without the labels and annotations that its copy does
// not have. The object itself is not changed.
func Strip[T interface {
	metav1.Object
	runtime.Object
}](p Policy, local T) T {
	if len(p.ExcludedLabels)+len(p.ExcludedAnnotations) == 0 {
		return local
	}
	stripped := local.DeepCopyObject().(T)
	stripped.SetLabels(without(stripped.GetLabels(), p.ExcludedLabels))
	stripped.SetAnnotations(without(stripped.GetAnnotations(), p.ExcludedAnnotations))
	return stripped
}
