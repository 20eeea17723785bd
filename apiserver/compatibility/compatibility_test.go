// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package compatibility

import (
	"strings"
	"testing"
)

func TestCommonVersionOfPeers(t *testing.T) {
	for _, test := range []struct {
		name  string
		peers []string
		want  string
		agree bool
	}{
		{"a peer that reports no versions", nil, "v1alpha1", true},
		{"a peer of the same version", []string{"v1alpha1"}, "v1alpha1", true},
		{"a newer peer that supports the old version", []string{"v1", "v1beta1", "v1alpha1"}, "v1alpha1", true},
		{"a newer peer that does not", []string{"v2", "v1"}, "", false},
	} {
		if got, agree := CommonVersion(test.peers); got != test.want || agree != test.agree {
			t.Errorf("%s: %q, %v", test.name, got, agree)
		}
	}
	if message := VersionsDiffer([]string{"v2", "v1"}); !strings.Contains(message, "v2, v1") ||
		!strings.Contains(message, "v1alpha1") {
		t.Errorf("got %q", message)
	}
}
