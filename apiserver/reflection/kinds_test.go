// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKindsAreNamedByResourceVersionAndGroup(t *testing.T) {
	kind := func(resource string) metav1.GroupVersionResource {
		return metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource}
	}
	for _, test := range []struct {
		name  string
		names []string
		want  []metav1.GroupVersionResource
		wrong string
	}{
		{"none", nil, nil, ""},
		{"two", []string{"widgets.v1.example.com", "gadgets.v1.example.com"},
			[]metav1.GroupVersionResource{kind("widgets"), kind("gadgets")}, ""},
		{"without a version", []string{"widgets.example"}, nil,
			`--policy-reflected-kinds "widgets.example": must be the resource, the version and the group`},
		{"the core group", []string{"pods.v1."}, nil, "--policy-reflected-kinds[0].group"},
		{"roles", []string{"roles.v1.rbac.authorization.k8s.io"}, nil, "--policy-reflected-kinds[0].group: Forbidden"},
		{"everything", []string{"*.v1.example.com"}, nil, "--policy-reflected-kinds[0].resource"},
		{"a subresource", []string{"widgets/scale.v1.example.com"}, nil, "--policy-reflected-kinds[0].resource"},
		{"twice", []string{"widgets.v1.example.com", "widgets.v2.example.com"}, nil, "Duplicate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kinds, errs := ParseKinds("policy-reflected-kinds", test.names)
			if len(errs) == 0 != (test.wrong == "") || len(errs) > 0 && !strings.Contains(errs[0].Error(), test.wrong) {
				t.Errorf("errors %v, want %q", errs, test.wrong)
			}
			if test.wrong != "" {
				return
			}
			if diff := cmp.Diff(test.want, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			for i, kind := range kinds {
				if got := KindName(kind); got != test.names[i] {
					t.Errorf("the name of %v is %s, want %s", kind, got, test.names[i])
				}
			}
		})
	}
}
