// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
)

// door is a provider that a consumer knocks at.
type door struct {
	requests  []*v1alpha1.IdentityRequest
	bound     string
	clusters  []*v1alpha1.ForeignCluster
	namespace *corev1.Namespace
	binding   *rbacv1.RoleBinding
	writes    []string
}

func knock(clusterID, clusterName string) *v1alpha1.IdentityRequest {
	return &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "invitation-" + peeringUID},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: clusterID, ClusterName: clusterName},
	}
}

func (d *door) pass(t *testing.T) []string {
	t.Helper()
	d.writes = nil
	r := &identityRequests{
		clusterID: milanID,
		get:       func(string) (*v1alpha1.IdentityRequest, error) { return d.requests[0], nil },
		list:      func(labels.Selector) ([]*v1alpha1.IdentityRequest, error) { return d.requests, nil },
		foreignClusters: func(labels.Selector) ([]*v1alpha1.ForeignCluster, error) {
			return slices.Clone(d.clusters), nil
		},
		known: func(context.Context) (*acquaintances, error) {
			known := &acquaintances{requests: d.requests, tokens: []v1alpha1.PeeringToken{{
				ObjectMeta: metav1.ObjectMeta{UID: peeringUID}, Spec: v1alpha1.PeeringTokenSpec{ConsumerClusterID: d.bound},
			}}}
			for _, fc := range d.clusters {
				known.clusters = append(known.clusters, *fc)
			}
			return known, nil
		},
		createForeignCluster: func(_ context.Context, fc *v1alpha1.ForeignCluster) (*v1alpha1.ForeignCluster, error) {
			fc.UID = types.UID(fc.Name + "-uid")
			d.clusters, d.writes = append(d.clusters, fc), append(d.writes, "create "+fc.Name)
			return fc, nil
		},
		commitForeignCluster: func(_ context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error) {
			d.clusters[slices.IndexFunc(d.clusters, func(fc *v1alpha1.ForeignCluster) bool { return fc.Name == old.Name })] = wanted
			d.writes = append(d.writes, "enable "+wanted.Name)
			return true, nil
		},
		commit: func(_ context.Context, old, wanted *v1alpha1.IdentityRequest) (bool, error) {
			if equality.Semantic.DeepEqual(old, wanted) {
				return false, nil
			}
			d.requests[0], d.writes = wanted, append(d.writes, "request")
			return true, nil
		},
		remove: func(context.Context, *v1alpha1.IdentityRequest) error {
			d.writes = append(d.writes, "delete request")
			d.requests = d.requests[:1]
			return nil
		},
		getNamespace: func(name string) (*corev1.Namespace, error) {
			if d.namespace == nil {
				return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
			}
			return d.namespace, nil
		},
		getBinding: func(_, name string) (*rbacv1.RoleBinding, error) {
			if d.binding == nil {
				return nil, apierrors.NewNotFound(rbacv1.Resource("rolebindings"), name)
			}
			return d.binding, nil
		},
	}
	if _, err := r.reconcile(t.Context(), cache.ObjectName{Name: d.requests[0].Name}); err != nil {
		t.Fatal(err)
	}
	return d.writes
}

func TestAnInvitedConsumerIsLetInInOrder(t *testing.T) {
	d := &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome")}}
	if diff := cmp.Diff([]string{"create rome", "request"}, d.pass(t)); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	fc := d.clusters[0]
	if fc.Spec.ClusterID != romeID || fc.Spec.Incoming != v1alpha1.PeeringEnabled || !metav1.IsControlledBy(d.requests[0], fc) {
		t.Fatalf("foreign cluster %+v, owners %+v", fc.Spec, d.requests[0].OwnerReferences)
	}
	for _, stage := range []struct {
		name    string
		prepare func()
	}{
		{"without a namespace", func() {}},
		{"without a binding", func() { d.namespace = namespaceOf("liqo-tenant-rome", "rome", v1alpha1.RoleTenant) }},
		{"with the binding of another", func() {
			d.binding = &rbacv1.RoleBinding{Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "another"}}}
		}},
		{"in a namespace that is going", func() {
			d.binding = (&Config{IdentityMode: identity.ModeCertificate}).tenantBinding(fc, d.requests)
			d.namespace.DeletionTimestamp = &metav1.Time{Time: now}
		}},
	} {
		stage.prepare()
		if writes := d.pass(t); len(writes) > 0 {
			t.Fatalf("%s: %v", stage.name, writes)
		}
	}
	d.namespace = namespaceOf("liqo-tenant-rome", "rome", v1alpha1.RoleTenant)
	d.pass(t)
	status := d.requests[0].Status
	if status.TenantNamespace != "liqo-tenant-rome" || status.ClusterID != milanID || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAccepted) {
		t.Errorf("status %+v", status)
	}
	if writes := d.pass(t); len(writes) > 0 {
		t.Errorf("a pass with nothing to change wrote %v", writes)
	}
}

func TestWhoMayComeIn(t *testing.T) {
	peered := rome()
	another := func(name string) *v1alpha1.ForeignCluster {
		return &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1alpha1.ForeignClusterSpec{ClusterID: peeringUID}}
	}
	known := rome()
	known.Spec.Incoming = v1alpha1.PeeringDisabled
	second := identityOf(peered)
	second.Name = "invitation-other"
	leaving := rome()
	leaving.Spec.Incoming = v1alpha1.PeeringDisabled
	suffix := naming.ShortID(romeID)
	for _, test := range []struct {
		name    string
		door    *door
		writes  []string
		refused string
	}{
		{"this very cluster may not", &door{requests: []*v1alpha1.IdentityRequest{knock(milanID, "milan")}}, []string{"request"}, ReasonOwnCluster},
		{"one that is peered may not", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome"), second}, clusters: []*v1alpha1.ForeignCluster{peered}}, []string{"request"}, ReasonClusterAlreadyPeered},
		{"unless it was invited by its id: then it gets another identity", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome"), second}, bound: romeID, clusters: []*v1alpha1.ForeignCluster{peered}}, []string{"delete request", "request"}, ""},
		{"another one than was invited may not", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome")}, bound: peeringUID}, []string{"request"}, ReasonInvitationOfAnother},
		{"one whose last peering is being undone waits", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome"), second}, clusters: []*v1alpha1.ForeignCluster{leaving}}, nil, ""},
		{"one that is known may", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome")}, clusters: []*v1alpha1.ForeignCluster{known}}, []string{"enable rome"}, ""},
		{"one of a name that is taken gets another", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome")}, clusters: []*v1alpha1.ForeignCluster{another("rome")}}, []string{"create rome-" + suffix, "request"}, ""},
		{"unless that is taken, too", &door{requests: []*v1alpha1.IdentityRequest{knock(romeID, "rome")}, clusters: []*v1alpha1.ForeignCluster{another("rome"), another("rome-" + suffix)}}, []string{"request"}, ReasonNameTaken},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.writes, test.door.pass(t)); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			condition := meta.FindStatusCondition(test.door.requests[0].Status.Conditions, v1alpha1.ConditionAccepted)
			if (condition == nil) != (test.refused == "") || (condition != nil && condition.Reason != test.refused) {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

func TestLongNamesGetTheirSuffixInTime(t *testing.T) {
	if name := suffixed("a-name-of-thirty-three-characters-", "abcdef"); len(name) > maxClusterName || name != "a-name-of-thirty-three-characters-abcdef" {
		t.Errorf("%q", name)
	}
}

func TestInvitations(t *testing.T) {
	token := func() *v1alpha1.PeeringToken {
		return &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: peeringUID, CreationTimestamp: metav1.NewTime(now)}}
	}
	accountOf := func(uid types.UID) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Name:            naming.InvitationAccount(uid),
			OwnerReferences: []metav1.OwnerReference{{Kind: peeringTokenKind, Name: "rome", UID: uid}},
		}}
	}
	taken := identityOf(rome())
	given := identityOf(rome())
	given.Status.Conditions = append(given.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionIssued, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)})
	account := identityOf(rome())
	account.Status.Conditions[0].Reason, account.Status.Conditions[0].LastTransitionTime = identity.ReasonKnownByAccount, metav1.NewTime(now)
	marked := token()
	marked.Status = v1alpha1.PeeringTokenStatus{Used: true, UsedBy: romeID}
	refused := knock(romeID, "rome")
	for _, test := range []struct {
		name     string
		token    *v1alpha1.PeeringToken
		after    time.Duration
		request  *v1alpha1.IdentityRequest
		asked    bool
		before   bool
		again    time.Duration
		accounts []types.UID
		writes   []string
	}{
		{name: "an unused one stays", token: token(), accounts: []types.UID{peeringUID}},
		{name: "one that was used is marked", token: token(), request: taken, accounts: []types.UID{peeringUID}, writes: []string{"used by " + romeID}},
		{name: "its account goes when the identity is used", token: marked, request: given, asked: true, after: fetchTime, accounts: []types.UID{peeringUID}, writes: []string{"delete account invitation-" + peeringUID}},
		{name: "also when that is an account", token: marked, request: account, asked: true, after: fetchTime, accounts: []types.UID{peeringUID}, writes: []string{"delete account invitation-" + peeringUID}},
		{name: "but not before there was time to fetch it", token: marked, request: given, asked: true, again: fetchTime, accounts: []types.UID{peeringUID}},
		{name: "and not before it is there", token: marked, request: taken, asked: true, after: fetchTime, accounts: []types.UID{peeringUID}},
		{name: "and not when an earlier identity was used", token: marked, request: given, asked: true, before: true, after: fetchTime, accounts: []types.UID{peeringUID}},
		{name: "it goes as well when the identity is no more", token: marked, accounts: []types.UID{peeringUID}, writes: []string{"delete account invitation-" + peeringUID}},
		{name: "an expired one goes with its account", token: token(), after: time.Hour, accounts: []types.UID{peeringUID}, writes: []string{"delete account invitation-" + peeringUID, "delete token"}},
		{name: "and with a request that became nothing", token: token(), after: time.Hour, request: refused, writes: []string{"delete request", "delete token"}},
		{name: "but not with a peering", token: token(), after: time.Hour, request: taken, writes: []string{"delete token"}},
		{name: "accounts of a token that was deleted go", accounts: []types.UID{"a", "b"}, writes: []string{"delete account invitation-a", "delete account invitation-b"}},
		{name: "also when there is a new one of that name", token: token(), accounts: []types.UID{"a", peeringUID}, writes: []string{"delete account invitation-a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var writes []string
			r := &peeringTokens{
				clock: testingclock.NewFakePassiveClock(now.Add(test.after)),
				get: func(name string) (*v1alpha1.PeeringToken, error) {
					if test.token == nil {
						return nil, apierrors.NewNotFound(v1alpha1.Resource("peeringtokens"), name)
					}
					return test.token, nil
				},
				now: func(_ context.Context, name string) (*v1alpha1.PeeringToken, error) {
					if test.token == nil {
						return nil, apierrors.NewNotFound(v1alpha1.Resource("peeringtokens"), name)
					}
					return test.token, nil
				},
				commit: func(_ context.Context, old, wanted *v1alpha1.PeeringToken) (bool, error) {
					if equality.Semantic.DeepEqual(old, wanted) {
						return false, nil
					}
					writes = append(writes, "used by "+wanted.Status.UsedBy)
					return true, nil
				},
				remove: func(context.Context, *v1alpha1.PeeringToken) error {
					writes = append(writes, "delete token")
					return nil
				},
				identity: func(name string) (*v1alpha1.IdentityRequest, error) {
					if test.request == nil {
						return nil, apierrors.NewNotFound(v1alpha1.Resource("identityrequests"), name)
					}
					return test.request, nil
				},
				forget: func(context.Context, *v1alpha1.IdentityRequest) error {
					writes = append(writes, "delete request")
					return nil
				},
				requests: func(string) ([]*v1alpha1.ResourceRequest, error) {
					if test.asked {
						made := now
						if test.before {
							made = now.Add(-time.Second)
						}
						return []*v1alpha1.ResourceRequest{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}}}, nil
					}
					return nil, nil
				},
				accounts: func() ([]*corev1.ServiceAccount, error) {
					var all []*corev1.ServiceAccount
					for _, uid := range test.accounts {
						all = append(all, accountOf(uid))
					}
					return all, nil
				},
				removeAccount: func(_ context.Context, account *corev1.ServiceAccount) error {
					writes = append(writes, "delete account "+account.Name)
					return nil
				},
			}
			after, err := r.reconcile(t.Context(), cache.ObjectName{Name: "rome"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.writes, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			want := test.again
			if want == 0 && test.token != nil && test.after < time.Hour {
				want = time.Hour - test.after
			}
			if after != want {
				t.Errorf("looks again after %v, want %v", after, want)
			}
		})
	}
}

func TestARequestOutlivesACacheThatIsBehind(t *testing.T) {
	fc := v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "of-rome"}}
	request := &v1alpha1.IdentityRequest{ObjectMeta: metav1.ObjectMeta{Name: "invitation-1", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(&fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")),
	}}}
	for name, test := range map[string]struct {
		live    []v1alpha1.ForeignCluster
		removed bool
	}{
		"its owner is there":    {live: []v1alpha1.ForeignCluster{fc}},
		"its owner is gone":     {removed: true},
		"its owner was another": {live: []v1alpha1.ForeignCluster{{ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "of-another"}}}, removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			removed := false
			r := &identityRequests{
				get:             func(string) (*v1alpha1.IdentityRequest, error) { return request, nil },
				foreignClusters: func(labels.Selector) ([]*v1alpha1.ForeignCluster, error) { return nil, nil },
				known:           func(context.Context) (*acquaintances, error) { return &acquaintances{clusters: test.live}, nil },
				remove:          func(context.Context, *v1alpha1.IdentityRequest) error { removed = true; return nil },
			}
			if _, err := r.reconcile(t.Context(), cache.ObjectName{Name: request.Name}); err != nil {
				t.Fatal(err)
			}
			if removed != test.removed {
				t.Errorf("removed is %t", removed)
			}
		})
	}
}
