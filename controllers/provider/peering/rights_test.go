// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestKindOfIdentityIsDecidedOnceForEachRequest(t *testing.T) {
	csr := kittest.SigningRequest(t, peerName())
	earlier := kittest.Certificate(t, kittest.SigningRequest(t, peerName()), peerName(), false)
	token := func(r *v1alpha1.IdentityRequest) {
		r.Status.ServiceAccountName = naming.TenantAccount
		identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount, "")
	}
	unsigned := func(r *v1alpha1.IdentityRequest) {
		identity.SetCondition(r, v1alpha1.ConditionIssued, metav1.ConditionUnknown, identity.ReasonAwaitingSigner, "")
	}
	failed := func(r *v1alpha1.IdentityRequest) {
		identity.SetCondition(r, v1alpha1.ConditionIssued, metav1.ConditionFalse, identity.ReasonSigningFailed, "")
	}
	invalid := func(r *v1alpha1.IdentityRequest) {
		identity.SetCondition(r, v1alpha1.ConditionIssued, metav1.ConditionFalse, "RequestInvalid", "")
	}
	certified := func(r *v1alpha1.IdentityRequest) {
		r.Status.Certificate = kittest.Certificate(t, csr, peerName(), false)
	}
	held := func(r *v1alpha1.IdentityRequest) { r.Status.Certificate = earlier }
	renewed := func(r *v1alpha1.IdentityRequest) { r.Generation++ }
	const user, account = peeringUID, naming.TenantAccount
	// While the consumer changes from a certificate to a token, or back, the identities in both have
	// the tenant role, and those in all may request tokens.
	both, all := []string{user, account}, []string{account, "invitation-" + user, user}
	for _, test := range []struct {
		name    string
		mode    identity.Mode
		changes []func(*v1alpha1.IdentityRequest)
		byToken bool
		tenants []string
		tokens  []string
	}{
		{"a certificate at first", identity.ModeAuto, nil, false, []string{user}, nil},
		{"a token where the signer does not answer", identity.ModeAuto, changes{unsigned}, true, both, all},
		{"a token where signing fails", identity.ModeAuto, changes{failed}, true, both, all},
		{"no identity for an invalid request", identity.ModeAuto, changes{invalid}, false, []string{user}, nil},
		{"a certificate in mode Certificate", identity.ModeCertificate, changes{unsigned}, false, []string{user}, nil},
		{"a token in mode Token", identity.ModeToken, nil, true, []string{account}, []string{account, "invitation-" + user}},
		{"a certificate that was issued late", identity.ModeAuto, changes{unsigned, certified}, false, []string{user}, nil},
		{"a token if no renewal is signed", identity.ModeAuto, changes{held, unsigned}, true, both, all},
		{"a certificate when a token is renewed", identity.ModeAuto, changes{unsigned, token, renewed}, false, both, all},
		{"a token stays one until it is renewed", identity.ModeCertificate, changes{token}, true, both, all},
		{"a token that is renewed in mode Certificate", identity.ModeCertificate, changes{token, renewed}, false, both, all},
		{"a certificate stays one until it is renewed", identity.ModeToken, changes{certified}, false, []string{user}, nil},
		{"a certificate that is renewed in mode Token", identity.ModeToken, changes{held}, true, both, all},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := acceptedRequest(csr)
			for _, change := range test.changes {
				change(request)
			}
			if got := test.mode.ByToken(request); got != test.byToken {
				t.Errorf("by token is %t", got)
			}
			requests := []*v1alpha1.IdentityRequest{request}
			var tenants, tokens []string
			for _, binding := range (&Config{Mode: test.mode}).tenantBindings("liqo-tenant-rome", requests) {
				for _, subject := range binding.Subjects {
					switch binding.Name {
					case naming.TenantRole:
						tenants = append(tenants, subject.Name)
					case naming.TenantTokenRole:
						tokens = append(tokens, subject.Name)
					}
				}
			}
			if diff := cmp.Diff(test.tenants, tenants); diff != "" {
				t.Errorf("tenants (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.tokens, tokens); diff != "" {
				t.Errorf("accounts that may request tokens (-want +got):\n%s", diff)
			}
		})
	}
}

type changes = []func(*v1alpha1.IdentityRequest)
