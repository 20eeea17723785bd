// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func accountIn(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: naming.TenantAccount}
}

func roleBinding(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: subjects}
}

// passes has the controller reconcile a FlowSchema of a cluster twice, and returns it.
func passes(t *testing.T, name string, objects ...client.Object) (*kittest.Cluster, *flowcontrolv1.FlowSchema) {
	t.Helper()
	schema := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}}
	// The account of a consumer that was deleted.
	schema.Spec.Rules = rulesFor([]flowcontrolv1.Subject{{
		Kind:           flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "liqo-tenant-deleted", Name: naming.TenantAccount},
	}}, []string{flowcontrolv1.VerbAll})
	for i, object := range objects {
		object.SetNamespace(fmt.Sprintf("namespace-%d", i))
	}
	c := kittest.New(t, append(objects, schema)...)
	for range 2 {
		if _, err := (&Reconciler{Client: c.Controller, Live: c}).Reconcile(t.Context(), kit.Request("", name)); err != nil {
			t.Fatal(err)
		}
	}
	return c, kittest.Read(c, "", name, &flowcontrolv1.FlowSchema{})
}

func TestAccountsOfConsumersAreInTheFlowSchemaOfPeers(t *testing.T) {
	leaving := roleBinding(naming.TenantRole, accountIn("liqo-tenant-leaving"))
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: kittest.Epoch}, []string{"example.com/wait"}
	for _, test := range []struct {
		name     string
		bindings []client.Object
		want     []string
	}{
		{"no consumer", nil, nil},
		{"consumer with a certificate", []client.Object{
			roleBinding(naming.TenantRole, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "uid"}),
		}, nil},
		{"two accounts, in order", []client.Object{
			roleBinding(naming.TenantRole, accountIn("liqo-tenant-rome")),
			roleBinding(naming.TenantRole, accountIn("liqo-tenant-genoa")),
		}, []string{"liqo-tenant-genoa", "liqo-tenant-rome"}},
		{"account that is named twice", []client.Object{
			roleBinding(naming.TenantRole, accountIn("liqo-tenant-rome"), accountIn("liqo-tenant-rome")),
		}, []string{"liqo-tenant-rome"}},
		{"binding that is being deleted", []client.Object{leaving}, nil},
		{"another role", []client.Object{roleBinding(naming.TenantTokenRole, accountIn("liqo-tenant-rome"))}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, schema := passes(t, "federation-peer-accounts", test.bindings...)
			var got []string
			for _, rule := range schema.Spec.Rules {
				for _, subject := range rule.Subjects {
					got = append(got, subject.ServiceAccount.Namespace)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"update FlowSchema federation-peer-accounts"}, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListsOfAccountsHaveTheirOwnFlowSchema(t *testing.T) {
	for name, want := range map[string]struct{ resources, others []string }{
		"federation-peer-accounts":      {[]string{"*"}, []string{"*"}},
		"federation-peer-account-lists": {[]string{"list", "watch"}, nil},
	} {
		_, got := passes(t, name, roleBinding(naming.TenantRole, accountIn("liqo-tenant-rome")))
		if len(got.Spec.Rules) != 1 {
			t.Fatalf("%s: got %v", name, got.Spec.Rules)
		}
		rule := got.Spec.Rules[0]
		var others []string
		for _, r := range rule.NonResourceRules {
			others = append(others, r.Verbs...)
		}
		if diff := cmp.Diff(want.resources, rule.ResourceRules[0].Verbs) + cmp.Diff(want.others, others); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFlowSchemaThatWasDeletedIsNotCreated(t *testing.T) {
	c := kittest.New(t)
	r := &Reconciler{Client: c.Controller, Live: c}
	result, err := r.Reconcile(t.Context(), kit.Request("", "federation-peer-accounts"))
	if err != nil || result.RequeueAfter != 0 || len(c.Writes) > 0 {
		t.Errorf("requeued after %s, %v, wrote %v", result.RequeueAfter, err, c.Writes)
	}
}

func TestBindingsOfConsumersRequestAllFlowSchemas(t *testing.T) {
	for role, want := range map[string]int{naming.TenantRole: len(flowSchemas), naming.TenantTokenRole: 0} {
		if got := schemasOfBinding(t.Context(), roleBinding(role)); len(got) != want {
			t.Errorf("%s: requests %v, want %d", role, got, want)
		}
	}
}
