// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// managerRole is the name of the ClusterRole that is bound to the controllers in each peer namespace,
// and of the RoleBinding. It permits them to read Secrets and to run workloads in that namespace.
const managerRole = "federation-peer-manager"

// namespaceStep ensures the peer namespace, and the RoleBinding of the controllers in it.
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
	return foreigncluster.Continue, foreigncluster.EnsureRoleBindings(ctx, s.Client,
		foreigncluster.RoleBinding(namespace, managerRole, account))
}
