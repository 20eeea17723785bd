// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	"k8s.io/utils/ptr"
)

// Classes are the classes of the provider's offer that reflected objects may name, the default first. If a list is
// empty, reflected objects name no class, and the provider's defaults apply.
type Classes struct {
	Ingress, LoadBalancer []string
}

// classOf returns the class of a reflected object: the class of the local object if the provider offers it, otherwise
// the first offered class. Nil means that it names no class.
func classOf(original string, offered []string) *string {
	switch {
	case len(offered) == 0:
		return nil
	case slices.Contains(offered, original):
		return &original
	}
	return ptr.To(offered[0])
}
