// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
)

// tenantBinding returns the RoleBinding of a consumer's identities as a tenant, which is the
// only place where they are stored. A consumer that changes from a certificate to an account,
// or back, has both meanwhile.
func (c *Config) tenantBinding(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) *rbacv1.RoleBinding {
	binding := roleBinding(naming.TenantRole, certified(c.IdentityMode, requests)...)
	if slices.ContainsFunc(requests, c.IdentityMode.HasAccount) {
		binding.Subjects = append(binding.Subjects, accountIn(naming.TenantNamespace(fc.Name)))
	}
	return binding
}

// certified returns the users of the certificates of consumers.
func certified(mode identity.Mode, requests []*v1alpha1.IdentityRequest) []rbacv1.Subject {
	var users []rbacv1.Subject
	for _, request := range requests {
		if uid, ok := naming.InvitationOfAccount(request.Name); ok && mode.HasCertificate(request) {
			users = append(users, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: string(uid)})
		}
	}
	slices.SortFunc(users, func(a, b rbacv1.Subject) int { return strings.Compare(a.Name, b.Name) })
	return users
}

// accountIn returns the account of the consumer in its tenant namespace.
func accountIn(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: naming.TenantAccount}
}

// tenantBindings returns the RoleBindings in the tenant namespace of a foreign cluster. One
// without subjects must not exist.
func (c *Config) tenantBindings(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) []*rbacv1.RoleBinding {
	manager := roleBinding(naming.TenantManagerRole,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.ServiceAccount})
	bindings := []*rbacv1.RoleBinding{c.tenantBinding(fc, requests), manager}
	withAccount := slices.DeleteFunc(slices.Clone(requests),
		func(r *v1alpha1.IdentityRequest) bool { return !c.IdentityMode.HasAccount(r) })
	if len(withAccount) == 0 {
		return bindings
	}
	// The first token is requested with the invitation, or with a certificate that is not
	// renewed, and all others by the account itself.
	tokens := roleBinding(naming.TenantTokenRole, accountIn(naming.TenantNamespace(fc.Name)))
	for _, request := range withAccount {
		tokens.Subjects = append(tokens.Subjects,
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.InvitationNamespace, Name: request.Name})
	}
	tokens.Subjects = append(tokens.Subjects, certified(c.IdentityMode, withAccount)...)
	return append(bindings, tokens)
}

// roleBinding returns a RoleBinding to the ClusterRole of the same name.
func roleBinding(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}
