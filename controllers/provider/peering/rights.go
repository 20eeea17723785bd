// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// tenantBinding returns the RoleBinding that grants the tenant role to all identities of a consumer.
// While the consumer changes from a certificate to a ServiceAccount token, or back, both identities
// are subjects. Other controllers read the identities of the consumer from this RoleBinding.
func (c *Config) tenantBinding(namespace string, requests []*v1alpha1.IdentityRequest) *rbacv1.RoleBinding {
	binding := foreigncluster.RoleBinding(namespace, naming.TenantRole, c.certified(requests)...)
	if slices.ContainsFunc(requests, c.Mode.HasAccount) {
		binding.Subjects = append(binding.Subjects, accountIn(namespace))
	}
	return binding
}

// certified returns the user of each IdentityRequest that has or may get a certificate.
func (c *Config) certified(requests []*v1alpha1.IdentityRequest) []rbacv1.Subject {
	var users []rbacv1.Subject
	for _, request := range requests {
		if uid, ok := naming.InvitationOfAccount(request.Name); ok && c.Mode.HasCertificate(request) {
			users = append(users, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: string(uid)})
		}
	}
	slices.SortFunc(users, func(a, b rbacv1.Subject) int { return strings.Compare(a.Name, b.Name) })
	return users
}

// accountIn returns the ServiceAccount of the consumer in its tenant namespace.
func accountIn(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: naming.TenantAccount}
}

// tenantBindings returns the desired RoleBindings in a tenant namespace: the consumer's, the
// controllers' and, if the consumer uses a ServiceAccount, the RoleBinding that permits to request its
// tokens. A returned RoleBinding without subjects is to be deleted.
func (c *Config) tenantBindings(namespace string, requests []*v1alpha1.IdentityRequest) []*rbacv1.RoleBinding {
	manager := foreigncluster.RoleBinding(namespace, naming.TenantManagerRole,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Account.Namespace, Name: c.Account.Name})
	bindings := []*rbacv1.RoleBinding{c.tenantBinding(namespace, requests), manager}
	withAccount := slices.DeleteFunc(slices.Clone(requests),
		func(r *v1alpha1.IdentityRequest) bool { return !c.Mode.HasAccount(r) })
	if len(withAccount) == 0 {
		return bindings
	}
	// The consumer requests the first token with the invitation, or with its certificate if the renewal
	// is not signed, and each further token with the previous one.
	tokens := foreigncluster.RoleBinding(namespace, naming.TenantTokenRole, accountIn(namespace))
	for _, request := range withAccount {
		tokens.Subjects = append(tokens.Subjects,
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.InvitationNamespace, Name: request.Name})
	}
	tokens.Subjects = append(tokens.Subjects, c.certified(withAccount)...)
	return append(bindings, tokens)
}
