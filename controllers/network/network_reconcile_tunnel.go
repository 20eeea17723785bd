// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// tunnel writes what both clusters agree upon. Of two copies that the other one
// made for the two directions either will do.
func (r *reconciler) tunnel(ctx context.Context, p *pass) (*verdict, error) {
	local, wrong := p.answered()
	if wrong != nil && p.endpoint == nil {
		return wrong, nil
	}
	if local == nil && p.endpoint == nil {
		return pending(ReasonAwaitingAnswer, "The other cluster has not said what it calls the ranges of this one."), nil
	}
	if local == nil {
		// The tunnel stays as it is until the other cluster knows better.
		local = p.endpoint.Spec.Local
	}
	theirs := p.theirs[0].Spec
	spec := v1alpha1.TunnelEndpointSpec{
		ClusterID: p.fc.Spec.ClusterID, PublicKey: theirs.PublicKey, Endpoints: theirs.Endpoints,
		MTU: lower(p.mtu, theirs.MTU), Local: local, Control: control(p.fc),
	}
	if gateway := p.fc.Spec.Gateway; inBand(p.fc) && gateway.PublicKey != theirs.PublicKey {
		if said, err := r.refusedGateway(p); said != nil || err != nil {
			return said, err
		}
		// What it says itself may be as old as the last time that it was heard from.
		spec.PublicKey, spec.Endpoints = gateway.PublicKey, gateway.Endpoints
	}
	for _, cidr := range r.ranges(&theirs) {
		spec.Remote = append(spec.Remote, v1alpha1.CIDRMapping{CIDR: cidr, Mapped: p.mapped[cidr]})
	}
	if said, err := r.write(ctx, p, spec); said != nil || err != nil {
		return said, err
	}
	// Ranges are free for others when no tunnel leads there any more.
	if err := r.removeMappings(ctx, p.fc.Name, maps.Clone(p.mapped)); err != nil {
		return nil, err
	}
	return wrong, nil
}

// removeEndpoint removes the tunnel to a foreign cluster.
func (r *reconciler) removeEndpoint(ctx context.Context, foreignCluster string) error {
	endpoint, err := r.endpoints.Get(foreignCluster)
	if apierrors.IsNotFound(err) || err == nil && (endpoint.DeletionTimestamp != nil || !isOurs(endpoint)) {
		return nil
	}
	if err == nil {
		err = r.Federation.FederationV1alpha1().TunnelEndpoints(r.Namespace).Delete(ctx, foreignCluster, exactly(endpoint))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove TunnelEndpoint %s/%s: %w", r.Namespace, foreignCluster, err)
	}
	return nil
}

// lower is the lower one of two MTUs, of which 0 says nothing.
func lower(a, b int32) int32 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
