// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// inBand reports whether the control plane of a peering goes through the tunnel. fc may be nil.
func inBand(fc *v1alpha1.ForeignCluster) bool {
	return fc != nil && fc.Spec.Mode == v1alpha1.PeeringInBand && fc.Spec.Gateway != nil && fc.Spec.ClusterID != ""
}

// control returns the parts of the control plane that go through the tunnel to a peer: a
// provider serves, a consumer calls, both until the peering ended.
func control(fc *v1alpha1.ForeignCluster) []v1alpha1.TunnelControl {
	if !inBand(fc) {
		return nil
	}
	var parts []v1alpha1.TunnelControl
	if fc.Spec.Incoming == v1alpha1.PeeringEnabled || exists(fc.Status.IncomingPeering) {
		parts = append(parts, v1alpha1.TunnelControlServe)
	}
	if fc.Spec.Outgoing == v1alpha1.PeeringEnabled || exists(fc.Status.OutgoingPeering) {
		parts = append(parts, v1alpha1.TunnelControlCall)
	}
	return parts
}

// exists reports whether a peering of a phase began and has not ended.
func exists(phase v1alpha1.PeeringPhase) bool { return phase != "" && phase != v1alpha1.PeeringNone }

// controlOnly keeps a tunnel without ranges, by the gateways alone.
func (r *Reconciler) controlOnly(ctx context.Context, p *pass) (*state, error) {
	if err := r.readTunnel(ctx, p); err != nil {
		return nil, err
	}
	if failed, err := r.ensureKeys(ctx, p); failed != nil || err != nil {
		return failed, err
	}
	if refusal, err := r.refuseGateway(ctx, p); refusal != nil || err != nil {
		return refusal, err
	}
	invited := p.fc.Spec.Gateway
	current, err := r.write(ctx, p, v1alpha1.TunnelEndpointSpec{
		ClusterID: p.fc.Spec.ClusterID, PublicKey: invited.PublicKey, Endpoints: invited.Endpoints,
		MTU: r.Settings.MTU, Control: control(p.fc),
	})
	if current != nil || err != nil {
		return current, err
	}
	expired := r.life.isExpired()
	if p.tunnel.Status.Phase == v1alpha1.TunnelConnected && !expired {
		return pending(ReasonAwaitingPeering, "The tunnel carries the control plane, and no ranges are agreed upon."), nil
	}
	return p.state(r.Clock.Now(), expired), nil
}

// refuseGateway returns what is wrong with the gateway in the spec of a ForeignCluster; nil if
// nothing is.
func (r *Reconciler) refuseGateway(ctx context.Context, p *pass) (*state, error) {
	key := p.fc.Spec.Gateway.PublicKey
	if key == p.newKey || key == p.usedKey {
		return failing(ReasonGatewayRefused,
			"spec.gateway has the public key of this cluster's own gateway: set it to that of the peer's."), nil
	}
	if used, err := r.usesKey(ctx, p.fc, key); err != nil || !used {
		return nil, err
	}
	return failing(ReasonGatewayRefused, "spec.gateway has the public key of another cluster's gateway."), nil
}

// withoutRanges ends the agreement with a peer, except for the tunnel that carries the control
// plane.
func (r *Reconciler) withoutRanges(ctx context.Context, p *pass) (*state, error) {
	if len(control(p.fc)) == 0 {
		return nil, r.deleteTunnel(ctx, p.fc.Name)
	}
	current, err := r.controlOnly(ctx, p)
	if err == nil && p.tunnel != nil && len(p.tunnel.Spec.Remote) > 0 {
		// Its ranges are free for other peers from now on.
		err = r.deleteTunnel(ctx, p.fc.Name)
	}
	return current, err
}
