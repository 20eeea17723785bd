// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
)

// IdentityMode is how a provider knows its consumers.
type IdentityMode string

const (
	// IdentityCertificate has certificates signed by certificates.k8s.io.
	IdentityCertificate IdentityMode = "Certificate"
	// IdentityToken gives tokens of a service account in the tenant namespace.
	IdentityToken IdentityMode = "Token"
	// IdentityAuto gives certificates, and tokens where nobody signs; at each
	// renewal that is found out anew.
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

// byToken tells whether a request is answered with an account. What was decided
// for it stays so; a renewal makes another request of it.
func (m IdentityMode) byToken(request *v1alpha1.IdentityRequest) bool {
	switch {
	case identity.KnownByAccount(request.Status.Conditions, request.Generation):
		return true
	case identity.Certifies(request.Status.Certificate, request.Spec.Request) != nil:
		return false
	case m != IdentityAuto:
		return m == IdentityToken
	}
	issued := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionIssued)
	return issued != nil && issued.ObservedGeneration == request.Generation &&
		(issued.Reason == ReasonAwaitingSigner || issued.Reason == ReasonSigningFailed)
}

// byCertificate tells whether a consumer has a certificate, or may be given one.
func (m IdentityMode) byCertificate(request *v1alpha1.IdentityRequest) bool {
	return m != IdentityToken || len(request.Status.Certificate) > 0
}

// tenantBinding lets the identities that a consumer paid for act as a tenant.
// It is the only place where they are written down. Whoever is known in two
// ways changes from one to the other, and is let in by both meanwhile.
func (c *Config) tenantBinding(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) *rbacv1.RoleBinding {
	binding := roleBinding(tenantRole, certified(c.IdentityMode, requests)...)
	if slices.ContainsFunc(requests, c.IdentityMode.hasAccount) {
		binding.Subjects = append(binding.Subjects, accountIn(naming.TenantNamespace(fc.Name)))
	}
	return binding
}

// hasAccount tells whether a consumer has an account, or is to be given one.
func (m IdentityMode) hasAccount(request *v1alpha1.IdentityRequest) bool {
	return request.Status.ServiceAccountName != "" || m.byToken(request)
}

// certified are the users that consumers are by their certificates.
func certified(mode IdentityMode, requests []*v1alpha1.IdentityRequest) []rbacv1.Subject {
	var users []rbacv1.Subject
	for _, request := range requests {
		if uid, ok := naming.InvitationOfAccount(request.Name); ok && mode.byCertificate(request) {
			users = append(users, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: string(uid)})
		}
	}
	slices.SortFunc(users, func(a, b rbacv1.Subject) int { return strings.Compare(a.Name, b.Name) })
	return users
}

// accountIn is the account of the consumer whose tenant namespace that is.
func accountIn(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: tenantAccount}
}

// tenantBindings are who may do what in the tenant namespace of a foreign
// cluster; a binding without subjects is not to be there.
func (c *Config) tenantBindings(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) []*rbacv1.RoleBinding {
	manager := roleBinding(tenantManagerRole, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.ServiceAccount})
	bindings := []*rbacv1.RoleBinding{c.tenantBinding(fc, requests), manager}
	known := slices.DeleteFunc(slices.Clone(requests), func(r *v1alpha1.IdentityRequest) bool { return !c.IdentityMode.hasAccount(r) })
	if len(known) == 0 {
		return bindings
	}
	// The bearer of the invitation gets the first token, or whoever has a
	// certificate that is not renewed, and the account itself all others.
	tokens := roleBinding(tenantTokenRole, accountIn(naming.TenantNamespace(fc.Name)))
	for _, request := range known {
		tokens.Subjects = append(tokens.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.InvitationNamespace, Name: request.Name})
	}
	tokens.Subjects = append(tokens.Subjects, certified(c.IdentityMode, known)...)
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
