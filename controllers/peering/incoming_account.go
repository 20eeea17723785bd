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

// tenantBinding lets the identities that a consumer paid for act as a tenant.
// It is the only place where they are written down. Whoever is known in two
// ways changes from one to the other, and is let in by both meanwhile.
func (c *Config) tenantBinding(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) *rbacv1.RoleBinding {
	binding := roleBinding(naming.TenantRole, certified(c.IdentityMode, requests)...)
	if slices.ContainsFunc(requests, c.IdentityMode.HasAccount) {
		binding.Subjects = append(binding.Subjects, accountIn(naming.TenantNamespace(fc.Name)))
	}
	return binding
}

// certified are the users that consumers are by their certificates.
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

// accountIn is the account of the consumer whose tenant namespace that is.
func accountIn(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: naming.TenantAccount}
}

// tenantBindings are who may do what in the tenant namespace of a foreign
// cluster; a binding without subjects is not to be there.
func (c *Config) tenantBindings(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) []*rbacv1.RoleBinding {
	manager := roleBinding(naming.TenantManagerRole, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.ServiceAccount})
	bindings := []*rbacv1.RoleBinding{c.tenantBinding(fc, requests), manager}
	known := slices.DeleteFunc(slices.Clone(requests), func(r *v1alpha1.IdentityRequest) bool { return !c.IdentityMode.HasAccount(r) })
	if len(known) == 0 {
		return bindings
	}
	// The bearer of the invitation gets the first token, or whoever has a
	// certificate that is not renewed, and the account itself all others.
	tokens := roleBinding(naming.TenantTokenRole, accountIn(naming.TenantNamespace(fc.Name)))
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
