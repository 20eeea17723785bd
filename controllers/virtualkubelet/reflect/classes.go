// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"slices"

	"k8s.io/utils/ptr"
)

// Classes are those of the provider that copies may name, by what they are of:
// the default first. Where there are none, nothing is named there.
type Classes struct {
	Ingress, LoadBalancer []string
}

// classOf is the class of a copy: that of the original if the provider offers it
// under this name, else the default; nil leaves it to the provider.
func classOf(original string, offered []string) *string {
	switch {
	case len(offered) == 0:
		return nil
	case slices.Contains(offered, original):
		return &original
	}
	return ptr.To(offered[0])
}
