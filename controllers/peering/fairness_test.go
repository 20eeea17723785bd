// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/naming"
)

func TestAccountsOfConsumersWaitInTheQueuesOfPeers(t *testing.T) {
	bound := func(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
		return roleBinding(role, subjects...)
	}
	account := func(namespace string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: naming.TenantAccount}
	}
	going := bound(naming.TenantRole, account("liqo-tenant-going"))
	going.DeletionTimestamp = &metav1.Time{}
	for _, test := range []struct {
		name     string
		bindings []*rbacv1.RoleBinding
		wants    []string
	}{
		{"nobody", nil, nil},
		{"a consumer with a certificate", []*rbacv1.RoleBinding{bound(naming.TenantRole, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "uid"})}, nil},
		{"two accounts, in order", []*rbacv1.RoleBinding{bound(naming.TenantRole, account("liqo-tenant-rome")), bound(naming.TenantRole, account("liqo-tenant-genoa"))}, []string{"liqo-tenant-genoa", "liqo-tenant-rome"}},
		{"one that is named twice", []*rbacv1.RoleBinding{bound(naming.TenantRole, account("liqo-tenant-rome"), account("liqo-tenant-rome"))}, []string{"liqo-tenant-rome"}},
		{"one that goes", []*rbacv1.RoleBinding{going}, nil},
		{"another role", []*rbacv1.RoleBinding{bound(naming.TenantTokenRole, account("liqo-tenant-rome"))}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			schema := &flowcontrolv1.FlowSchema{Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: 850}}
			// What another consumer left.
			schema.Spec.Rules = rulesFor([]flowcontrolv1.Subject{{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "liqo-tenant-gone", Name: naming.TenantAccount}}}, []string{flowcontrolv1.VerbAll})
			writes := 0
			f := &fairness{
				bindings: func() ([]*rbacv1.RoleBinding, error) { return test.bindings, nil },
				get:      func(context.Context, string) (*flowcontrolv1.FlowSchema, error) { return schema, nil },
				update: func(_ context.Context, changed *flowcontrolv1.FlowSchema) error {
					writes++
					schema = changed
					return nil
				},
			}
			for range 2 {
				if _, err := f.reconcile(t.Context(), cache.ObjectName{Name: "liqo-peer-accounts"}); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, rule := range schema.Spec.Rules {
				for _, subject := range rule.Subjects {
					got = append(got, subject.ServiceAccount.Namespace)
				}
			}
			if diff := cmp.Diff(test.wants, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if writes != 1 {
				t.Errorf("it was written %d times", writes)
			}
		})
	}
}

func TestListsOfAccountsWaitApart(t *testing.T) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-tenant-rome", Name: naming.TenantAccount}
	for schema, want := range map[string]struct{ resources, others []string }{
		"liqo-peer-accounts":      {[]string{"*"}, []string{"*"}},
		"liqo-peer-account-lists": {[]string{"list", "watch"}, nil},
	} {
		var got *flowcontrolv1.FlowSchema
		f := &fairness{
			bindings: func() ([]*rbacv1.RoleBinding, error) {
				return []*rbacv1.RoleBinding{roleBinding(naming.TenantRole, account)}, nil
			},
			get: func(_ context.Context, name string) (*flowcontrolv1.FlowSchema, error) {
				return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
			},
			update: func(_ context.Context, changed *flowcontrolv1.FlowSchema) error {
				got = changed
				return nil
			},
		}
		if _, err := f.reconcile(t.Context(), cache.ObjectName{Name: schema}); err != nil {
			t.Fatal(err)
		}
		if got.Name != schema || len(got.Spec.Rules) != 1 {
			t.Fatalf("%s: got %v", schema, got)
		}
		rule := got.Spec.Rules[0]
		var others []string
		for _, r := range rule.NonResourceRules {
			others = append(others, r.Verbs...)
		}
		if diff := cmp.Diff(want.resources, rule.ResourceRules[0].Verbs) + cmp.Diff(want.others, others); diff != "" {
			t.Errorf("%s (-want +got):\n%s", schema, diff)
		}
	}
}

func TestWithoutItsFlowSchemaThereIsNothingToShareOut(t *testing.T) {
	f := &fairness{
		bindings: func() ([]*rbacv1.RoleBinding, error) { return nil, nil },
		get: func(_ context.Context, name string) (*flowcontrolv1.FlowSchema, error) {
			return nil, apierrors.NewNotFound(flowcontrolv1.Resource("flowschemas"), name)
		},
	}
	if again, err := f.reconcile(t.Context(), cache.ObjectName{Name: "liqo-peer-accounts"}); err != nil || again != 0 {
		t.Errorf("again in %v, %v", again, err)
	}
}
