// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
)

// IdentityMode is how a provider knows its consumers.
type IdentityMode string

const (
	// IdentityCertificate has certificates signed by certificates.k8s.io.
	IdentityCertificate IdentityMode = "Certificate"
	// IdentityToken gives tokens of a service account in the tenant namespace.
	IdentityToken IdentityMode = "Token"
	// IdentityAuto gives tokens where nobody signs certificates.
	IdentityAuto IdentityMode = "Auto"
)

// ParseIdentityMode reads the value of a flag.
func ParseIdentityMode(value string) (IdentityMode, error) {
	modes := []IdentityMode{IdentityCertificate, IdentityToken, IdentityAuto}
	if mode := IdentityMode(value); slices.Contains(modes, mode) {
		return mode, nil
	}
	return "", fmt.Errorf("%q is none of %v", value, modes)
}

const (
	// tenantAccount is the service account in a tenant namespace that a
	// consumer is that has no certificate.
	tenantAccount = "federation-peer"
	// tenantTokenRole is the ClusterRole that lets somebody ask for tokens of
	// that account, and tenantManagerRole the one that lets the controllers
	// make it, and the Lease of the consumer's heartbeat; RoleBindings of the
	// same names give them.
	tenantTokenRole   = "federation-tenant-token"
	tenantManagerRole = "federation-tenant-manager"
)

// needsToken tells whether a consumer has to be known by tokens.
func (m IdentityMode) needsToken(request *v1alpha1.IdentityRequest) bool {
	if m == IdentityToken || request.Status.ServiceAccountName != "" {
		return true
	}
	if m != IdentityAuto || len(request.Status.Certificate) > 0 {
		return false
	}
	issued := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionIssued)
	return issued != nil && (issued.Reason == ReasonAwaitingSigner || issued.Reason == ReasonSigningFailed)
}

// tenantBindings are who may do what in the tenant namespace of a foreign
// cluster; a binding without subjects is not to be there.
func (c *Config) tenantBindings(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) []*rbacv1.RoleBinding {
	manager := roleBinding(tenantManagerRole, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.ServiceAccount})
	bindings := []*rbacv1.RoleBinding{tenantBinding(requests), manager}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: rules.TenantNamespace(fc.Name), Name: tenantAccount}
	tokens := roleBinding(tenantTokenRole)
	for _, request := range requests {
		if c.IdentityMode.needsToken(request) {
			// The bearer of the invitation gets the first token, and the
			// account itself all others.
			tokens.Subjects = append(tokens.Subjects, account,
				rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.InvitationNamespace, Name: request.Name})
		}
	}
	if len(tokens.Subjects) == 0 {
		return bindings
	}
	return append(bindings, tokens)
}

// roleBinding binds the ClusterRole of the same name.
func roleBinding(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}
