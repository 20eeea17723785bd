// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reflection decides which objects are reflected to the clusters that their namespace
// is offloaded to, and by which virtual node.
package reflection

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// StaysHome reports whether the owner of an object keeps it out of the clusters that
// its namespace extends to.
func StaysHome(object metav1.Object) bool {
	skip, annotated := object.GetAnnotations()[v1alpha1.AnnotationSkipReflection]
	return annotated && skip != "false"
}

// DecidingVirtualNode is the virtual node whose spec.reflection counts for a
// cluster; nil if none of them stands for it. All of them share the twin
// namespaces there, so one has to decide: the oldest that is not being deleted.
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
