// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// The ClusterRoles that are bound in each peer namespace, which are also the names of the RoleBindings.
const (
	// managerRole permits the controllers to read Secrets and to run workloads in the namespace.
	managerRole = "federation-peer-manager"
	// kubeletRole permits the virtual kubelets to read the VirtualNodes and NamespaceMaps of their provider.
	kubeletRole = "federation-virtual-kubelet-peer"
)

// namespaceStep ensures the peer namespace, and the RoleBindings of the controllers and of virtual kubelets in it.
type namespaceStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *namespaceStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	out, err := foreigncluster.EnsureNamespace(ctx, s.Client, p, foreigncluster.Outgoing)
	if err != nil || out.Stop {
		return out, err
	}
	namespace := naming.PeerNamespace(p.ForeignCluster.Name)
	p.ForeignCluster.Status.PeerNamespace = namespace
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.Account.Namespace, Name: s.Account.Name}
	kubelets := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName,
		Name: "system:serviceaccounts:" + namespace}
	return foreigncluster.Continue, foreigncluster.EnsureRoleBindings(ctx, s.Client,
		foreigncluster.RoleBinding(namespace, managerRole, account),
		foreigncluster.RoleBinding(namespace, kubeletRole, kubelets))
}
