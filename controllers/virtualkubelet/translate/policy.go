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

// Policy is the reflection policy of one kind: which objects are reflected, and without which labels and annotations.
// The zero value is the policy DenyList without exclusions.
type Policy struct {
	// ClusterID is the ID of the cluster to which objects are reflected.
	ClusterID string
	// AllowList means that only objects with the annotation that allows reflection are reflected.
	AllowList bool
	// ExcludedLabels and ExcludedAnnotations are the keys of labels and annotations that are not reflected.
	ExcludedLabels, ExcludedAnnotations []string
}

// PolicyOf returns the policy of a kind for reflection to a cluster, with the exclusions for all kinds and for this
// one.
func PolicyOf(spec *v1alpha1.VirtualNodeReflection, of schema.GroupResource, clusterID string) Policy {
	policy := Policy{
		ClusterID: clusterID, ExcludedLabels: spec.ExcludedLabels, ExcludedAnnotations: spec.ExcludedAnnotations,
	}
	for _, kind := range spec.Kinds {
		if kind.Group == of.Group && kind.Resource == of.Resource {
			policy.AllowList = kind.Policy == v1alpha1.ReflectionAllowList
			policy.ExcludedLabels = slices.Concat(policy.ExcludedLabels, kind.ExcludedLabels)
			policy.ExcludedAnnotations = slices.Concat(policy.ExcludedAnnotations, kind.ExcludedAnnotations)
		}
	}
	return policy
}

// Reflects reports whether an object is reflected. The annotations that exclude an object take precedence over the one
// that allows it.
func (p Policy) Reflects(local metav1.Object) bool {
	if reflection.Excludes(local, p.ClusterID) {
		return false
	}
	allow, annotated := local.GetAnnotations()[v1alpha1.AnnotationAllowReflection]
	return !p.AllowList || annotated && allow != "false"
}

// Strip returns a copy of the object without the excluded labels and annotations, or the object itself if none are
// excluded.
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
