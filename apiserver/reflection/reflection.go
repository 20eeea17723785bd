// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reflection has the rules that determine which objects of an offloaded namespace are reflected
// to providers.
package reflection

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// SkipsReflection reports whether the annotation liqo.io/skip-reflection excludes an object from
// reflection. Any value except "false" excludes it.
func SkipsReflection(object metav1.Object) bool {
	skip, annotated := object.GetAnnotations()[v1alpha1.AnnotationSkipReflection]
	return annotated && skip != "false"
}

// Excludes reports whether the annotation liqo.io/skip-reflection excludes an object from reflection,
// or liqo.io/reflect-to excludes it from reflection to the cluster with this ID.
func Excludes(object metav1.Object, clusterID string) bool {
	clusters, limited := object.GetAnnotations()[v1alpha1.AnnotationReflectTo]
	return SkipsReflection(object) || limited && !slices.ContainsFunc(strings.Split(clusters, ","), func(id string) bool {
		return clusterID != "" && strings.TrimSpace(id) == clusterID
	})
}

// DecidingVirtualNode returns the virtual node whose spec.reflection applies to the provider with this
// cluster ID, or nil if the provider has no virtual node. All virtual nodes of a provider share its
// remote namespaces, so only one can apply: the oldest that is not being deleted, or the oldest if all
// are.
func DecidingVirtualNode(nodes []*v1alpha1.VirtualNode, clusterID string) *v1alpha1.VirtualNode {
	var candidates []*v1alpha1.VirtualNode
	for _, node := range nodes {
		if node.Spec.ClusterID == clusterID {
			candidates = append(candidates, node)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, func(a, b *v1alpha1.VirtualNode) int {
		if aEnds, bEnds := a.DeletionTimestamp != nil, b.DeletionTimestamp != nil; aEnds != bEnds {
			if aEnds {
				return 1
			}
			return -1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
