// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// tenantStep ensures the tenant namespace, and the RoleBindings of the consumer in it.
type tenantStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *tenantStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	out, err := foreigncluster.EnsureNamespace(ctx, s.Client, p, foreigncluster.Incoming)
	if err != nil || out.Stop {
		return out, err
	}
	namespace := naming.TenantNamespace(p.ForeignCluster.Name)
	p.ForeignCluster.Status.TenantNamespace = namespace
	requests, err := s.identities(ctx, p.ForeignCluster)
	if err != nil {
		return foreigncluster.Continue, err
	}
	return foreigncluster.Continue,
		foreigncluster.EnsureRoleBindings(ctx, s.Client, s.tenantBindings(namespace, requests)...)
}
