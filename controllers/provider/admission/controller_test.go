// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	tokenUID    = "0b6c1f9e-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	romeID      = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID     = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
	requestName = "invitation-" + tokenUID
	otherName   = "invitation-other"
	tenant      = "liqo-tenant-rome"
)

// aRequest returns the IdentityRequest of an invited consumer.
func aRequest(clusterID, clusterName string) *v1alpha1.IdentityRequest {
	return &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: requestName, UID: "request"},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: clusterID, ClusterName: clusterName},
	}
}

// aToken returns the PeeringToken of the IdentityRequest aRequest. It is bound to a cluster ID unless
// bound is empty.
func aToken(bound string) *v1alpha1.PeeringToken {
	return &v1alpha1.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: tokenUID}, Spec: v1alpha1.PeeringTokenSpec{ConsumerClusterID: bound},
	}
}

func aForeignCluster(name, clusterID string, incoming v1alpha1.PeeringIntent) *v1alpha1.ForeignCluster {
	return kittest.ForeignCluster(name, clusterID, v1alpha1.PeeringDisabled, incoming)
}

// owned returns an IdentityRequest of another name that a ForeignCluster owns.
func owned(fc *v1alpha1.ForeignCluster) *v1alpha1.IdentityRequest {
	request := aRequest(romeID, "rome")
	request.Name, request.UID = otherName, "other"
	request.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")),
	}
	return request
}

func tenantNamespace() *corev1.Namespace {
	return kittest.PeeringNamespace(tenant, v1alpha1.RoleTenant, "rome", "example.com/wait")
}

func bindingOf(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: role}, Subjects: subjects}
}

// provider is a fake cluster with the IdentityRequest of one consumer.
type provider struct {
	*kittest.Cluster
	t          *testing.T
	reconciler *Reconciler
}

func newProvider(t *testing.T, mode identity.Mode, objects ...client.Object) *provider {
	c := kittest.New(t, objects...)
	return &provider{c, t, &Reconciler{Client: c.Controller, Live: c, ClusterID: milanID, Mode: mode}}
}

// pass reconciles the IdentityRequest once, and returns the writes to the API server.
func (p *provider) pass() []string {
	p.t.Helper()
	_, writes := p.Pass(p.reconciler, kit.Request("", requestName))
	return writes
}

func (p *provider) request() *v1alpha1.IdentityRequest {
	p.t.Helper()
	return kittest.Read(p.Cluster, "", requestName, &v1alpha1.IdentityRequest{})
}

func (p *provider) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestInvitedConsumerIsAdmittedInOrder(t *testing.T) {
	p := newProvider(t, identity.ModeCertificate, aRequest(romeID, "rome"), aToken(""))
	want := []string{"create ForeignCluster rome", "patch IdentityRequest " + requestName}
	if diff := cmp.Diff(want, p.pass()); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	fc := kittest.Read(p.Cluster, "", "rome", &v1alpha1.ForeignCluster{})
	if fc.Spec.ClusterID != romeID || fc.Spec.Incoming != v1alpha1.PeeringEnabled ||
		!metav1.IsControlledBy(p.request(), fc) {
		t.Fatalf("foreign cluster %+v, owners %+v", fc.Spec, p.request().OwnerReferences)
	}
	another := bindingOf(naming.TenantRole, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "another"})
	for _, stage := range []struct {
		name    string
		prepare func()
	}{
		{"without a namespace", func() {}},
		{"without a binding", func() { p.must(p.Create(t.Context(), tenantNamespace())) }},
		{"with the binding of another consumer", func() { p.must(p.Create(t.Context(), another)) }},
		{"in a namespace that is being deleted", func() {
			kittest.Change(p.Cluster, tenant, naming.TenantRole, &rbacv1.RoleBinding{}, func(binding *rbacv1.RoleBinding) {
				binding.Subjects[0].Name = tokenUID
			})
			p.must(p.Delete(t.Context(), tenantNamespace()))
		}},
	} {
		stage.prepare()
		if writes := p.pass(); len(writes) > 0 {
			t.Fatalf("%s: wrote %v", stage.name, writes)
		}
	}
	kittest.Change(p.Cluster, "", tenant, &corev1.Namespace{},
		func(namespace *corev1.Namespace) { namespace.Finalizers = nil })
	p.must(p.Create(t.Context(), tenantNamespace()))
	p.pass()
	status := p.request().Status
	if status.TenantNamespace != tenant || status.ClusterID != milanID ||
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAccepted) {
		t.Errorf("status %+v", status)
	}
	if writes := p.pass(); len(writes) > 0 {
		t.Errorf("a pass with nothing to change wrote %v", writes)
	}
}

func TestConsumerWithoutACertificateGetsAnAccountOnceItHasRights(t *testing.T) {
	request := owned(aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled))
	request.Name = requestName
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: tenant, Name: naming.TenantAccount}
	p := newProvider(t, identity.ModeToken, request, aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled),
		tenantNamespace(),
		bindingOf(naming.TenantRole, account))
	if writes := p.pass(); len(writes) > 0 {
		t.Fatalf("without the right to request tokens: wrote %v", writes)
	}
	p.must(p.Create(t.Context(), bindingOf(naming.TenantTokenRole,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-invitations", Name: requestName})))
	want := []string{"create ServiceAccount " + naming.TenantAccount, "patch status IdentityRequest " + requestName}
	if diff := cmp.Diff(want, p.pass()); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	if status := p.request().Status; status.ServiceAccountName != naming.TenantAccount ||
		!identity.KnownByAccount(status.Conditions, 0) {
		t.Errorf("status %+v", status)
	}
	if writes := p.pass(); len(writes) > 0 {
		t.Errorf("a pass with nothing to change wrote %v", writes)
	}
}

func TestRequestsAreAdmittedOrRefused(t *testing.T) {
	const request, status = "patch IdentityRequest " + requestName, "patch status IdentityRequest " + requestName
	peered := aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled)
	known := aForeignCluster("rome", romeID, v1alpha1.PeeringDisabled)
	created := aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled)
	created.Annotations = map[string]string{v1alpha1.AnnotationIdentityRequest: requestName}
	another := func(name string) *v1alpha1.ForeignCluster { return aForeignCluster(name, tokenUID, "") }
	suffix := naming.ShortID(romeID)
	for _, test := range []struct {
		name    string
		request *v1alpha1.IdentityRequest
		bound   string
		objects []client.Object
		writes  []string
		refused string
	}{
		{"this cluster", aRequest(milanID, "milan"), "", nil, []string{status}, ReasonOwnCluster},
		{"peered consumer", aRequest(romeID, "rome"), "", []client.Object{peered, owned(peered)}, []string{status},
			ReasonInvitationNotBound},
		{"peered consumer that was invited by its ID", aRequest(romeID, "rome"), romeID,
			[]client.Object{peered, owned(peered)},
			[]string{"delete IdentityRequest " + otherName, request}, ""},
		{"another consumer than was invited", aRequest(romeID, "rome"), tokenUID, nil, []string{status},
			ReasonInvitationForAnotherCluster},
		{"consumer whose last peering is being torn down", aRequest(romeID, "rome"), romeID, []client.Object{known, owned(known)},
			nil, ""},
		{"known consumer that was invited by its ID", aRequest(romeID, "rome"), romeID, []client.Object{known},
			[]string{"patch ForeignCluster rome"}, ""},
		{"consumer whose ForeignCluster was created in a pass that was interrupted", aRequest(romeID, "rome"), "",
			[]client.Object{created}, []string{request}, ""},
		{"the ID of a provider of this cluster", aRequest(romeID, "rome"), "", []client.Object{known}, []string{status},
			ReasonInvitationNotBound},
		{"name of another cluster", aRequest(romeID, "rome"), "", []client.Object{another("rome")},
			[]string{"create ForeignCluster rome-" + suffix, request}, ""},
		{"name and suffixed name of other clusters", aRequest(romeID, "rome"), "", []client.Object{another("rome"), another("rome-" + suffix)},
			[]string{status}, ReasonNameTaken},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProvider(t, identity.ModeCertificate, append(test.objects, test.request, aToken(test.bound))...)
			if diff := cmp.Diff(test.writes, p.pass()); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			condition := meta.FindStatusCondition(p.request().Status.Conditions, v1alpha1.ConditionAccepted)
			if (condition == nil) != (test.refused == "") || (condition != nil && condition.Reason != test.refused) {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

// Everybody who has an invitation that is not bound to a cluster ID can use it, so a person decides about a tenant.
func TestTenantWithAnUnboundInvitationWaitsForADecision(t *testing.T) {
	const tenantTrust, owner = v1alpha1.TrustTenant, v1alpha1.TrustSameOwner
	for _, test := range []struct {
		name                     string
		installation, invitation v1alpha1.PeeringTrust
		bound                    string
		trust                    v1alpha1.PeeringTrust
		decision                 v1alpha1.PeeringDecision
	}{
		{"a tenant", tenantTrust, "", "", tenantTrust, v1alpha1.PeeringManual},
		{"a tenant by its invitation", owner, tenantTrust, "", tenantTrust, v1alpha1.PeeringManual},
		{"a tenant that was invited by its ID", tenantTrust, "", romeID, tenantTrust, ""},
		{"the same owner", owner, "", "", owner, ""},
		{"the same owner by the invitation", tenantTrust, owner, "", owner, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := aToken(test.bound)
			token.Spec.Trust = test.invitation
			p := newProvider(t, identity.ModeCertificate, aRequest(romeID, "rome"), token)
			p.reconciler.Trust = test.installation
			p.pass()
			spec := kittest.Read(p.Cluster, "", "rome", &v1alpha1.ForeignCluster{}).Spec
			if spec.Trust != test.trust || spec.IncomingPolicy.Decision != test.decision {
				t.Errorf("got trust %q and decision %q, want %q and %q", spec.Trust, spec.IncomingPolicy.Decision, test.trust,
					test.decision)
			}
		})
	}
}

// A cluster that claims the ID of a peer must not take its place when the peering ends.
func TestRefusalOfAnUnboundInvitationIsFinal(t *testing.T) {
	peered := aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled)
	p := newProvider(t, identity.ModeCertificate, aRequest(romeID, "rome"), aToken(""), peered)
	p.pass()
	p.must(p.Delete(t.Context(), peered))
	if writes := p.pass(); len(writes) > 0 {
		t.Errorf("after the end of the peering: wrote %v", writes)
	}
}

func TestRequestWithoutItsInvitationIsRefused(t *testing.T) {
	p := newProvider(t, identity.ModeCertificate, aRequest(romeID, "rome"))
	p.pass()
	got := meta.FindStatusCondition(p.request().Status.Conditions, v1alpha1.ConditionAccepted)
	if got == nil || got.Reason != ReasonInvitationWithdrawn {
		t.Errorf("condition %+v", got)
	}
}

func TestLongNamesAreShortenedForTheirSuffix(t *testing.T) {
	name := suffixed("a-name-of-thirty-three-characters-", "abcdef")
	if len(name) > maxClusterName || name != "a-name-of-thirty-three-characters-abcdef" {
		t.Errorf("%q", name)
	}
}

func TestRequestIsKeptWhileTheCacheLacksItsForeignCluster(t *testing.T) {
	fc := aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled)
	replaced := aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled)
	replaced.UID = "another"
	for name, test := range map[string]struct {
		live    []client.Object
		deleted bool
	}{
		"owner exists":       {live: []client.Object{fc}},
		"owner was deleted":  {deleted: true},
		"owner was replaced": {live: []client.Object{replaced}, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			cached, live := kittest.New(t, owned(fc)), kittest.New(t, test.live...)
			r := &Reconciler{Client: cached.Controller, Live: live}
			if _, err := r.Reconcile(t.Context(), kit.Request("", otherName)); err != nil {
				t.Fatal(err)
			}
			if deleted := len(cached.Writes) > 0; deleted != test.deleted {
				t.Errorf("deleted is %t", deleted)
			}
		})
	}
}

func TestObjectsOfAForeignClusterReconcileItsRequestsAndUnassignedOnes(t *testing.T) {
	fc := aForeignCluster("rome", romeID, v1alpha1.PeeringEnabled)
	r := newProvider(t, identity.ModeCertificate, aRequest(romeID, "rome"), owned(fc)).reconciler
	free, its := kit.Request("", requestName), kit.Request("", otherName)
	for name, want := range map[string][]reconcile.Request{"rome": {free, its}, "genoa": {free}, "": nil} {
		if diff := cmp.Diff(want, r.requestsOf(t.Context(), name)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
}
