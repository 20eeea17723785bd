// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// inBand reports whether the consumer's requests to the provider's API server go through the tunnel, because
// spec.mode of the ForeignCluster is InBand. fc may be nil.
func inBand(fc *v1alpha1.ForeignCluster) bool {
	return fc != nil && fc.Spec.Mode == v1alpha1.PeeringInBand && fc.Spec.Gateway != nil && fc.Spec.ClusterID != ""
}

// control returns the directions in which requests to an API server go through the tunnel: Serve on a
// provider, Call on a consumer, both from when the direction is enabled until its peering has ended.
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

// exists reports whether a peering with this phase has begun and has not ended.
func exists(phase v1alpha1.PeeringPhase) bool { return phase != "" && phase != v1alpha1.PeeringNone }

// controlOnly ensures a TunnelEndpoint without ranges, whose tunnel carries only the control plane, and returns its
// state. It uses spec.gateway of the ForeignCluster, whose spec.mode must be InBand.
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
		if r.mode(p.fc) != v1alpha1.NetworkingTunnel {
			return &state{phase: v1alpha1.PeeringEstablished, reason: ReasonConnected,
				message: "The tunnel is connected, and carries the control plane only."}, nil
		}
		return pending(ReasonAwaitingPeering,
			"The tunnel carries the control plane only: the clusters have not agreed on pod CIDRs yet."), nil
	}
	return p.state(r.Clock.Now(), expired), nil
}

// refuseGateway returns a failed state if the public key in spec.gateway of the ForeignCluster is the
// key of the local gateway or is used for another peer; otherwise nil.
func (r *Reconciler) refuseGateway(ctx context.Context, p *pass) (*state, error) {
	key := p.fc.Spec.Gateway.PublicKey
	if key == p.newKey || key == p.usedKey {
		return failing(ReasonGatewayRefused,
			"spec.gateway has the public key of this cluster's own gateway: set it to the key of the peer's gateway."), nil
	}
	if used, err := r.usesKey(ctx, p.fc, key); err != nil || !used {
		return nil, err
	}
	return failing(ReasonGatewayRefused,
		"spec.gateway has the public key of another cluster's gateway: set it to the key of the peer's gateway."), nil
}

// withoutRanges deletes the TunnelEndpoint of a peer or, if the control plane uses the tunnel (see control), replaces
// it by one without ranges and returns the state of that tunnel.
func (r *Reconciler) withoutRanges(ctx context.Context, p *pass) (*state, error) {
	if len(control(p.fc)) == 0 {
		return nil, r.deleteTunnel(ctx, p.fc.Name)
	}
	current, err := r.controlOnly(ctx, p)
	if err == nil && p.tunnel != nil && len(p.tunnel.Spec.Remote) > 0 {
		// controlOnly did not replace the TunnelEndpoint, which is deleted because its ranges may now be
		// allocated to other peers.
		err = r.deleteTunnel(ctx, p.fc.Name)
	}
	return current, err
}
