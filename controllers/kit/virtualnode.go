// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// OnlyPodsCounted reports whether nothing is new of a VirtualNode but how many pods
// it has: that changes each second while pods come or go, and decides nothing.
func OnlyPodsCounted(old, current any) bool {
	before, ok1 := old.(*v1alpha1.VirtualNode)
	now, ok2 := current.(*v1alpha1.VirtualNode)
	if !ok1 || !ok2 {
		return false
	}
	same := *now
	same.ResourceVersion, same.ManagedFields, same.Status.Pods = before.ResourceVersion, before.ManagedFields, before.Status.Pods
	return now.ResourceVersion != before.ResourceVersion && equality.Semantic.DeepEqual(before, &same)
}
