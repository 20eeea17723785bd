// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import "testing"

func TestIsPeer(t *testing.T) {
	for _, test := range []struct {
		name   string
		groups []string
		want   bool
	}{
		{"0b7f9d3e-52a4-4b0b-8e0e-4f8e5a3c2d02", []string{"system:authenticated", "liqo:peers"}, true},
		{"system:serviceaccount:liqo-tenant-rome:federation-peer", []string{"system:serviceaccounts"}, true},
		{"system:serviceaccount:liqo:federation-controller-manager", []string{"system:serviceaccounts"}, false},
		{"liqo-tenant-rome", nil, false},
		{"admin", []string{"system:masters"}, false},
	} {
		if got := IsPeer(test.name, test.groups); got != test.want {
			t.Errorf("%s of %v: %v", test.name, test.groups, got)
		}
	}
}
