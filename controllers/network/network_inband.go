// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

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

// own is our gateway, as the other cluster has to know it: where it is called
// moves no sooner than in what is agreed upon. It is nil while that is not known.
func (r *reconciler) own(ctx context.Context, p *pass, told *v1alpha1.PeeringGateway) (*v1alpha1.PeeringGateway, error) {
	for _, step := range []func(context.Context, *pass) (*verdict, error){r.keys, r.ownEndpoints} {
		if said, err := step(ctx, p); said != nil || err != nil {
			return nil, err
		}
	}
	own := &v1alpha1.PeeringGateway{PublicKey: p.told, Endpoints: p.calledAt}
	if r.gateways != nil && told != nil {
		var left time.Duration
		own.Endpoints, left = r.gateways.settled(told.Endpoints, p.calledAt, p.service, r.Clock.Now())
		p.after = sooner(p.after, left)
	}
	return own, nil
}

// controlOnly makes the tunnel of which nothing is agreed upon but who the
// gateways are, or makes that of one there is.
func (r *reconciler) controlOnly(ctx context.Context, p *pass) (*verdict, error) {
	if err := r.existing(p); err != nil {
		return nil, err
	}
	if said, err := r.keys(ctx, p); said != nil || err != nil {
		return said, err
	}
	if said, err := r.refusedGateway(p); said != nil || err != nil {
		return said, err
	}
	gateway := p.fc.Spec.Gateway
	said, err := r.write(ctx, p, v1alpha1.TunnelEndpointSpec{
		ClusterID: p.fc.Spec.ClusterID, PublicKey: gateway.PublicKey, Endpoints: gateway.Endpoints, MTU: r.Settings.MTU, Control: control(p.fc),
	})
	if said != nil || err != nil {
		return said, err
	}
	silent := r.gateway.isSilent()
	if p.endpoint.Status.Phase == v1alpha1.TunnelConnected && !silent {
		return pending(ReasonAwaitingPeering, "The tunnel carries the control plane, and nothing else is agreed upon."), nil
	}
	standing := p.standing(r.Clock.Now(), silent)
	return &standing, nil
}

// refusedGateway says what is wrong with the gateway that an administrator let in.
func (r *reconciler) refusedGateway(p *pass) (*verdict, error) {
	key := p.fc.Spec.Gateway.PublicKey
	if key == p.publicKey || key == p.told {
		return failing(ReasonGatewayRefused, "spec.gateway has the public key of this cluster's own gateway: it has to be the other one's."), nil
	}
	if taken, err := r.taken(p.fc, key); err != nil || !taken {
		return nil, err
	}
	return failing(ReasonGatewayRefused, "spec.gateway has the public key of another cluster's gateway."), nil
}

// withoutRanges takes back what was agreed upon with a cluster, but for the
// tunnel that carries the control plane.
func (r *reconciler) withoutRanges(ctx context.Context, p *pass) (*verdict, error) {
	if len(control(p.fc)) == 0 {
		return nil, r.removeEndpoint(ctx, p.fc.Name)
	}
	said, err := r.controlOnly(ctx, p)
	if err == nil && p.endpoint != nil && len(p.endpoint.Spec.Remote) > 0 {
		// Its ranges are given to others from now on.
		err = r.removeEndpoint(ctx, p.fc.Name)
	}
	return said, err
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
