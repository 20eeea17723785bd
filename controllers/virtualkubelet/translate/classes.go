// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	"k8s.io/utils/ptr"
)

// Classes are the classes of the provider that reflected objects may name, the default first. An
// empty list leaves the class to the provider.
type Classes struct {
	Ingress, LoadBalancer []string
}

// classOf returns the class of a reflected object: that of the original if the provider offers it
// under this name, otherwise the provider's default. Nil leaves it to the provider.
func classOf(original string, offered []string) *string {
	switch {
	case len(offered) == 0:
		return nil
	case slices.Contains(offered, original):
		return &original
	}
	return ptr.To(offered[0])
}
