// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package compatibility

import (
	"strings"
	"testing"
)

func TestPeersAgreeOnAVersionOrNot(t *testing.T) {
	for _, test := range []struct {
		name  string
		peers []string
		want  string
		agree bool
	}{
		{"one from before versions were told", nil, "v1alpha1", true},
		{"one of the same version", []string{"v1alpha1"}, "v1alpha1", true},
		{"a newer one that knows the old", []string{"v1", "v1beta1", "v1alpha1"}, "v1alpha1", true},
		{"a newer one that does not", []string{"v2", "v1"}, "", false},
	} {
		if got, agree := CommonVersion(test.peers); got != test.want || agree != test.agree {
			t.Errorf("%s: %q, %v", test.name, got, agree)
		}
	}
	if says := VersionsDiffer([]string{"v2", "v1"}); !strings.Contains(says, "v2, v1") || !strings.Contains(says, "v1alpha1") {
		t.Errorf("%s", says)
	}
}
