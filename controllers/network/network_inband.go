// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
)

// inBand tells whether the control plane of a peering goes through the tunnel.
func inBand(fc *v1alpha1.ForeignCluster) bool {
	return fc != nil && fc.Spec.Mode == v1alpha1.PeeringInBand && fc.Spec.Gateway != nil && fc.Spec.ClusterID != ""
}

// control is what of the control plane goes through the tunnel to a cluster:
// who lends serves, who borrows calls, and both until they have taken leave.
func control(fc *v1alpha1.ForeignCluster) []v1alpha1.TunnelControl {
	if !inBand(fc) {
		return nil
	}
	var parts []v1alpha1.TunnelControl
	if fc.Spec.Incoming == v1alpha1.PeeringEnabled || lasts(fc.Status.IncomingPeering) {
		parts = append(parts, v1alpha1.TunnelControlServe)
	}
	if fc.Spec.Outgoing == v1alpha1.PeeringEnabled || lasts(fc.Status.OutgoingPeering) {
		parts = append(parts, v1alpha1.TunnelControlCall)
	}
	return parts
}

func lasts(phase v1alpha1.PeeringPhase) bool { return phase != "" && phase != v1alpha1.PeeringNone }

// own is our gateway, as the other cluster has to know it.
func (r *reconciler) own(p *pass) *v1alpha1.PeeringGateway {
	return &v1alpha1.PeeringGateway{PublicKey: p.publicKey, Endpoints: r.Settings.Endpoints}
}

// controlOnly makes the tunnel of which nothing is agreed upon but who the
// gateways are, or makes that of one there is.
func (r *reconciler) controlOnly(ctx context.Context, p *pass) (*verdict, error) {
	if said, err := r.keys(ctx, p); said != nil || err != nil {
		return said, err
	}
	gateway := p.fc.Spec.Gateway
	if gateway.PublicKey == p.publicKey {
		return failing(ReasonGatewayRefused, "spec.gateway has the public key of this cluster's own gateway: it has to be the other one's."), nil
	}
	endpoints, err := r.endpoints.List(everything)
	if err != nil {
		return nil, err
	}
	for _, other := range endpoints {
		if other.Name != p.fc.Name && other.Spec.PublicKey == gateway.PublicKey {
			return failing(ReasonGatewayRefused, "spec.gateway has the public key of another cluster's gateway."), nil
		}
	}
	if p.endpoint, err = r.endpoints.Get(p.fc.Name); apierrors.IsNotFound(err) {
		p.endpoint, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	said, err := r.write(ctx, p, v1alpha1.TunnelEndpointSpec{
		ClusterID: p.fc.Spec.ClusterID, PublicKey: gateway.PublicKey, Endpoints: gateway.Endpoints, MTU: r.Settings.MTU, Control: control(p.fc),
	})
	if said != nil || err != nil {
		return said, err
	}
	if p.endpoint.Status.Phase == v1alpha1.TunnelConnected {
		return pending(ReasonAwaitingPeering, "The tunnel carries the control plane, and nothing else is agreed upon."), nil
	}
	standing := p.standing(r.Clock.Now())
	return &standing, nil
}

// withoutRanges takes back what was agreed upon with a cluster, but for the
// tunnel that carries the control plane.
func (r *reconciler) withoutRanges(ctx context.Context, p *pass) (*verdict, error) {
	if len(control(p.fc)) == 0 {
		return nil, r.removeEndpoint(ctx, p.fc.Name)
	}
	return r.controlOnly(ctx, p)
}

// write makes the tunnel to a cluster, or makes it another one.
func (r *reconciler) write(ctx context.Context, p *pass, spec v1alpha1.TunnelEndpointSpec) (*verdict, error) {
	client := r.Federation.FederationV1alpha1().TunnelEndpoints(r.Namespace)
	switch {
	case p.endpoint == nil:
		created, err := client.Create(ctx, &v1alpha1.TunnelEndpoint{ObjectMeta: managed(p.fc, r.Namespace, p.fc.Name), Spec: spec}, createOptions)
		if err != nil {
			return nil, fmt.Errorf("agree upon the tunnel to %s: %w", p.fc.Name, err)
		}
		p.endpoint = created
	case p.endpoint.Spec.ClusterID != spec.ClusterID:
		if err := r.removeEndpoint(ctx, p.fc.Name); err != nil {
			return nil, err
		}
		return pending(ReasonConnecting, "The tunnel to another cluster of that name is being removed."), nil
	case !equality.Semantic.DeepEqual(p.endpoint.Spec, spec):
		changed := p.endpoint.DeepCopy()
		changed.Spec = spec
		if _, err := commit.Commit(ctx, client, p.endpoint, changed); err != nil {
			return nil, err
		}
		// What the gateway says of it is of the older one.
		changed.Generation++
		p.endpoint = changed
	}
	return nil, nil
}
