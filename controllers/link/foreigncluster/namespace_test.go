// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestNamespaceOfAPeeringIsCreatedAndNoOtherIsUsed(t *testing.T) {
	terminating := newNamespace("liqo-tenant-milan", "milan", v1alpha1.RoleTenant)
	terminating.DeletionTimestamp, terminating.Finalizers = &metav1.Time{Time: now}, []string{"test/stays"}
	for _, test := range []struct {
		name     string
		existing *corev1.Namespace
		writes   []string
		stop     bool
		reason   string
	}{
		{"there is none", nil, []string{"create Namespace liqo-tenant-milan"}, false, ""},
		{"it exists", newNamespace("liqo-tenant-milan", "milan", v1alpha1.RoleTenant), nil, false, ""},
		{"it has another role", newNamespace("liqo-tenant-milan", "milan", "peer"), nil, true, ReasonNamespaceTaken},
		{"it is being deleted", terminating, nil, true, ReasonNamespaceTerminating},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t)
			if test.existing != nil {
				c = kittest.New(t, test.existing)
			}
			p := &Pass{ForeignCluster: milan(), Now: now}
			out, err := EnsureNamespace(t.Context(), c.Controller, p, Incoming)
			if err != nil || out.Stop != test.stop {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			if diff := cmp.Diff(test.writes, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			reason := ""
			for _, condition := range p.ForeignCluster.Status.Conditions {
				reason = condition.Reason
			}
			if reason != test.reason {
				t.Errorf("reason %q, want %q", reason, test.reason)
			}
			found, err := FindNamespace(t.Context(), c, "milan", Incoming)
			if belongs := test.reason != ReasonNamespaceTaken; err != nil || (found != nil) != belongs {
				t.Errorf("found %v, %v; the namespace is of the peering: %t", found, err, belongs)
			}
		})
	}
}

func TestRoleBindingWithoutSubjectsIsDeleted(t *testing.T) {
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "peer"}
	empty := RoleBinding("liqo-tenant-milan", "tenant")
	for _, test := range []struct {
		name     string
		existing []client.Object
		wanted   *rbacv1.RoleBinding
		writes   []string
	}{
		{"none, and none wanted", nil, empty, nil},
		{
			"none, and one wanted", nil, RoleBinding("liqo-tenant-milan", "tenant", subject),
			[]string{"create RoleBinding tenant"},
		},
		{
			"one, and none wanted", []client.Object{RoleBinding("liqo-tenant-milan", "tenant", subject)}, empty,
			[]string{"delete RoleBinding tenant"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, test.existing...)
			if err := EnsureRoleBindings(t.Context(), c.Controller, test.wanted.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.writes, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
