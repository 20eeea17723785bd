// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// VirtualNodeChanged reports whether a VirtualNode changed in any field except status.pods, on which no controller
// depends. It also returns true for a resync, in which both versions are equal. It is an argument of Changed.
func VirtualNodeChanged(old, current *v1alpha1.VirtualNode) bool {
	same := *current
	same.ResourceVersion, same.ManagedFields, same.Status.Pods = old.ResourceVersion, old.ManagedFields, old.Status.Pods
	return current.ResourceVersion == old.ResourceVersion || !equality.Semantic.DeepEqual(old, &same)
}
