// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package invitation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	tokenUID = "0b6c1f9e-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	romeID   = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	tenant   = "liqo-tenant-rome"
)

var epoch = metav1.NewTime(kittest.Epoch)

func aToken(changes ...func(*v1alpha1.PeeringToken)) *v1alpha1.PeeringToken {
	token := &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: tokenUID, CreationTimestamp: epoch}}
	for _, change := range changes {
		change(token)
	}
	return token
}

func used(token *v1alpha1.PeeringToken) {
	token.Status = v1alpha1.PeeringTokenStatus{Used: true, UsedBy: romeID}
}

func anAccount(uid types.UID) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-invitations", Name: naming.InvitationAccount(uid), UID: "account-" + uid,
		OwnerReferences: []metav1.OwnerReference{{Kind: ownerKind, Name: "rome", UID: uid}},
	}}
}

func aRequest(changes ...func(*v1alpha1.IdentityRequest)) *v1alpha1.IdentityRequest {
	request := &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: naming.InvitationAccount(tokenUID), UID: "request"},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: romeID, ClusterName: "rome"},
	}
	for _, change := range changes {
		change(request)
	}
	return request
}

// accepted is the state of a request that belongs to a ForeignCluster.
func accepted(request *v1alpha1.IdentityRequest) {
	fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "rome-uid"}}
	request.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")),
	}
	request.Status.TenantNamespace = tenant
	identity.SetCondition(request, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted", "")
}

func issued(request *v1alpha1.IdentityRequest) {
	accepted(request)
	request.Status.Conditions = append(request.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionIssued, Status: metav1.ConditionTrue, LastTransitionTime: epoch})
}

func byAccount(request *v1alpha1.IdentityRequest) {
	accepted(request)
	condition := &request.Status.Conditions[0]
	condition.Reason, condition.LastTransitionTime = identity.ReasonKnownByAccount, epoch
}

// resourceRequest is a ResourceRequest of a consumer, created by its identity some time after Epoch.
func resourceRequest(after time.Duration) *v1alpha1.ResourceRequest {
	return &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenant, Name: "rome", CreationTimestamp: metav1.NewTime(kittest.Epoch.Add(after)),
	}}
}

func TestInvitationsAreReportedAndDeleted(t *testing.T) {
	const account = "ServiceAccount invitation-" + tokenUID
	for _, test := range []struct {
		name    string
		objects []client.Object
		after   time.Duration
		again   time.Duration
		writes  []string
	}{
		{name: "unused", objects: []client.Object{aToken(), anAccount(tokenUID)}, again: time.Hour},
		{name: "used", objects: []client.Object{aToken(), anAccount(tokenUID), aRequest(accepted)},
			again: time.Hour, writes: []string{"patch status PeeringToken rome"}},
		{name: "identity is used",
			objects: []client.Object{aToken(used), anAccount(tokenUID), aRequest(issued), resourceRequest(0)},
			after:   fetchTime, again: time.Hour - fetchTime, writes: []string{"delete " + account}},
		{name: "identity is used, which is an account",
			objects: []client.Object{aToken(used), anAccount(tokenUID), aRequest(byAccount), resourceRequest(0)},
			after:   fetchTime, again: time.Hour - fetchTime, writes: []string{"delete " + account}},
		{name: "no time to fetch the identity yet",
			objects: []client.Object{aToken(used), anAccount(tokenUID), aRequest(issued), resourceRequest(0)}, again: fetchTime},
		{name: "identity is not issued yet",
			objects: []client.Object{aToken(used), anAccount(tokenUID), aRequest(accepted), resourceRequest(0)},
			after:   fetchTime, again: time.Hour - fetchTime},
		{name: "earlier identity was used",
			objects: []client.Object{aToken(used), anAccount(tokenUID), aRequest(issued), resourceRequest(-time.Second)},
			after:   fetchTime, again: time.Hour - fetchTime},
		{name: "identity was revoked", objects: []client.Object{aToken(used), anAccount(tokenUID)},
			again: time.Hour, writes: []string{"delete " + account}},
		{name: "expired", objects: []client.Object{aToken(), anAccount(tokenUID)},
			after: time.Hour, writes: []string{"delete " + account, "delete PeeringToken rome"}},
		{name: "expired with a request that was not accepted", objects: []client.Object{aToken(), aRequest()},
			after: time.Hour, writes: []string{"delete IdentityRequest invitation-" + tokenUID, "delete PeeringToken rome"}},
		{name: "expired with a peering", objects: []client.Object{aToken(), aRequest(accepted)},
			after: time.Hour, writes: []string{"delete PeeringToken rome"}},
		{name: "deleted", objects: []client.Object{anAccount("a"), anAccount("b")},
			writes: []string{"delete ServiceAccount invitation-a", "delete ServiceAccount invitation-b"}},
		{name: "deleted with a request that was not accepted", objects: []client.Object{anAccount(tokenUID), aRequest()},
			writes: []string{"delete IdentityRequest invitation-" + tokenUID, "delete " + account}},
		{name: "deleted with a peering", objects: []client.Object{anAccount(tokenUID), aRequest(accepted)},
			writes: []string{"delete " + account}},
		{name: "deleted, with a new one of that name",
			objects: []client.Object{aToken(), anAccount("a"), anAccount(tokenUID)},
			again:   time.Hour, writes: []string{"delete ServiceAccount invitation-a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, test.objects...)
			c.Clock.Step(test.after)
			r := &Reconciler{Client: c.Controller, Live: c, Clock: c.Clock, accounts: c}
			result, err := r.Reconcile(t.Context(), kit.Request("", "rome"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.writes, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if result.RequeueAfter != test.again {
				t.Errorf("requeued after %v, want %v", result.RequeueAfter, test.again)
			}
		})
	}
}

func TestAccountIsKeptWhileTheCacheLacksItsToken(t *testing.T) {
	cached, live := kittest.New(t, anAccount(tokenUID)), kittest.New(t, aToken())
	r := &Reconciler{Client: cached.Controller, Live: live, Clock: cached.Clock, accounts: cached}
	if _, err := r.Reconcile(t.Context(), kit.Request("", "rome")); err != nil || len(cached.Writes) > 0 {
		t.Errorf("wrote %v, %v", cached.Writes, err)
	}
}

func TestUseReportsTheConsumer(t *testing.T) {
	c := kittest.New(t, aToken(), aRequest(accepted))
	r := &Reconciler{Client: c.Controller, Live: c, Clock: c.Clock, accounts: c}
	if _, err := r.Reconcile(t.Context(), kit.Request("", "rome")); err != nil {
		t.Fatal(err)
	}
	if got := kittest.Read(c, "", "rome", &v1alpha1.PeeringToken{}).Status; !got.Used || got.UsedBy != romeID {
		t.Errorf("status %+v", got)
	}
}

func TestObjectsLeadToTheirTokens(t *testing.T) {
	other := aToken(func(token *v1alpha1.PeeringToken) { token.Name, token.UID = "genoa", "other" })
	c := kittest.New(t, aToken(), other)
	r := &Reconciler{Client: c}
	rome, genoa := kit.Request("", "rome"), kit.Request("", "genoa")
	for _, test := range []struct {
		object client.Object
		want   []reconcile.Request
	}{
		{aRequest(), []reconcile.Request{rome}},
		{&v1alpha1.IdentityRequest{ObjectMeta: metav1.ObjectMeta{Name: "invitation-unknown"}}, nil},
		{resourceRequest(0), []reconcile.Request{genoa, rome}},
	} {
		if diff := cmp.Diff(test.want, r.tokensOf(t.Context(), test.object)); diff != "" {
			t.Errorf("%T %s (-want +got):\n%s", test.object, test.object.GetName(), diff)
		}
	}
	if diff := cmp.Diff([]reconcile.Request{rome}, tokenOfAccount(anAccount(tokenUID))); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}
