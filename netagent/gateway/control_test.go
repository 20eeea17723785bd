// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import "testing"

func TestOnlyAnotherKeyResetsTheControlPlane(t *testing.T) {
	c := &controlPlane{}
	for i, step := range []struct {
		key   string // public key of the tunnel; empty if it could not be read
		moved bool
	}{
		{"", false}, {"one", false}, {"one", false}, {"", false}, {"one", false}, {"two", true}, {"", false},
		{"two", false}, {"one", true},
	} {
		if got := c.keyChanged(step.key); got != step.moved {
			t.Errorf("step %d, with the key %q: changed: %v", i, step.key, got)
		}
	}
}
