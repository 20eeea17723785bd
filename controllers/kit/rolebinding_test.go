// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestRoleBindingIsCreatedUpdatedOrReplaced(t *testing.T) {
	binding := func(role string, users ...string) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reflection", UID: "1"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		for _, user := range users {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: user})
		}
		return b
	}
	for _, test := range []struct {
		name   string
		before []client.Object
		want   []string
	}{
		{"RoleBinding does not exist", nil, []string{"create RoleBinding reflection"}},
		{"RoleBinding is equal", []client.Object{binding("reader", "milan")}, nil},
		{"RoleBinding has other subjects", []client.Object{binding("reader", "naples")}, []string{"update RoleBinding reflection"}},
		{"RoleBinding has another role", []client.Object{binding("admin", "milan")},
			[]string{"delete RoleBinding reflection", "create RoleBinding reflection"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, test.before...)
			wanted := binding("reader", "milan")
			if err := kit.EnsureRoleBinding(t.Context(), c, c.Controller, wanted.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			got := kittest.Read(c, "shop", "reflection", &rbacv1.RoleBinding{})
			if !cmp.Equal(got.Subjects, wanted.Subjects) || got.RoleRef != wanted.RoleRef {
				t.Errorf("bound %v to %v, want %v to %v", got.Subjects, got.RoleRef, wanted.Subjects, wanted.RoleRef)
			}
		})
	}
}
