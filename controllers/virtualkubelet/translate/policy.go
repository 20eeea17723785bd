// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// Policy selects the objects of a kind that are reflected, and the labels and annotations that are
// not. The zero value is DenyList without exclusions.
type Policy struct {
	// AllowList reflects only objects with the annotation that allows it.
	AllowList bool
	// ExcludedLabels and ExcludedAnnotations are keys that reflected objects do not have.
	ExcludedLabels, ExcludedAnnotations []string
}

// PolicyOf returns the policy of one kind: that of all kinds and its own.
func PolicyOf(spec *v1alpha1.VirtualNodeReflection, of schema.GroupResource) Policy {
	policy := Policy{ExcludedLabels: spec.ExcludedLabels, ExcludedAnnotations: spec.ExcludedAnnotations}
	for _, kind := range spec.Kinds {
		if kind.Group == of.Group && kind.Resource == of.Resource {
			policy.AllowList = kind.Policy == v1alpha1.ReflectionAllowList
			policy.ExcludedLabels = slices.Concat(policy.ExcludedLabels, kind.ExcludedLabels)
			policy.ExcludedAnnotations = slices.Concat(policy.ExcludedAnnotations, kind.ExcludedAnnotations)
		}
	}
	return policy
}

// Reflects reports whether an object is reflected. The annotation that excludes an object takes precedence.
func (p Policy) Reflects(local metav1.Object) bool {
	if reflection.SkipsReflection(local) {
		return false
	}
	allow, annotated := local.GetAnnotations()[v1alpha1.AnnotationAllowReflection]
	return !p.AllowList || annotated && allow != "false"
}

// Strip returns the object without the excluded labels and annotations. The object itself is not
// changed.
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
