// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// withdrawalStep ends the incoming peering when the consumer withdraws its resource request. It
// deletes the ForeignCluster or, if the outgoing direction is enabled, disables the incoming one.
type withdrawalStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *withdrawalStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	if !kit.IncomingEnabled(p.ForeignCluster) {
		return foreigncluster.Continue, nil
	}
	requests, _, err := s.negotiation(ctx, p.ForeignCluster.Name)
	if err != nil || !slices.ContainsFunc(requests, isWithdrawn) {
		return foreigncluster.Continue, err
	}
	if kit.OutgoingEnabled(p.ForeignCluster) {
		p.ForeignCluster.Spec.Incoming = v1alpha1.PeeringDisabled
		return foreigncluster.Wait, nil
	}
	return foreigncluster.Wait, kit.Delete(ctx, s.Client, p.ForeignCluster)
}

func isWithdrawn(request v1alpha1.ResourceRequest) bool {
	return request.Spec.Withdrawn && request.DeletionTimestamp == nil
}
