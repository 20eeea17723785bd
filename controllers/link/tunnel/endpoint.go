// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// ensureTunnel, a step of agree, ensures the TunnelEndpoint of the peer once both clusters have answered. If the peer
// has a NetworkConfig for each direction, it uses the one of the outgoing peering.
func (r *Reconciler) ensureTunnel(ctx context.Context, p *pass) (*state, error) {
	local, refusal := p.answered()
	if refusal != nil && p.tunnel == nil {
		return refusal, nil
	}
	if local == nil && p.tunnel == nil {
		return pending(ReasonAwaitingAnswer, "The peer has not answered the NetworkConfig of this cluster yet."), nil
	}
	if local == nil {
		// The local part of an existing tunnel is kept until the peer answers.
		local = p.tunnel.Spec.Local
	}
	remote := p.remote[0].Spec
	spec := v1alpha1.TunnelEndpointSpec{
		ClusterID: p.fc.Spec.ClusterID, PublicKey: remote.PublicKey, Endpoints: remote.Endpoints,
		MTU: lower(p.mtu, remote.MTU), Local: local, Control: control(p.fc),
	}
	if invited := p.fc.Spec.Gateway; inBand(p.fc) && invited.PublicKey != remote.PublicKey {
		if refusal, err := r.refuseGateway(ctx, p); refusal != nil || err != nil {
			return refusal, err
		}
		// The NetworkConfig may be outdated, because it is replicated through this tunnel.
		spec.PublicKey, spec.Endpoints = invited.PublicKey, invited.Endpoints
	}
	// Empty means All, so that no TunnelEndpoint changes because of an upgrade.
	if trust.Reach(p.fc, r.Reach) == v1alpha1.ReachOffloaded {
		spec.Reach = v1alpha1.ReachOffloaded
	}
	for _, cidr := range p.commonRanges(&remote) {
		spec.Remote = append(spec.Remote, v1alpha1.CIDRMapping{CIDR: cidr, Mapped: p.remapped[cidr]})
	}
	if current, err := r.write(ctx, p, spec); current != nil || err != nil {
		return current, err
	}
	// An AddressMapping is deleted only once the TunnelEndpoint no longer uses its range.
	if err := r.deleteMappings(ctx, p.fc.Name, p.remapped); err != nil {
		return nil, err
	}
	return refusal, nil
}

// write creates or updates the TunnelEndpoint of a peer, and sets p.tunnel. If the existing TunnelEndpoint has
// another cluster ID, write deletes it and returns the state to report meanwhile.
func (r *Reconciler) write(ctx context.Context, p *pass, spec v1alpha1.TunnelEndpointSpec) (*state, error) {
	switch {
	case p.tunnel == nil:
		tunnel := &v1alpha1.TunnelEndpoint{ObjectMeta: managed(p.fc, r.Namespace, p.fc.Name), Spec: spec}
		if err := r.Client.Create(ctx, tunnel); err != nil {
			return nil, fmt.Errorf("creating TunnelEndpoint %s/%s: %w", r.Namespace, p.fc.Name, err)
		}
		p.tunnel = tunnel
	case p.tunnel.Spec.ClusterID != spec.ClusterID:
		if err := r.deleteTunnel(ctx, p.fc.Name); err != nil {
			return nil, err
		}
		return pending(ReasonConnecting, "The tunnel to a cluster with the former spec.clusterID is being deleted."), nil
	case !equality.Semantic.DeepEqual(p.tunnel.Spec, spec):
		changed := p.tunnel.DeepCopy()
		changed.Spec = spec
		if _, err := kit.Commit(ctx, r.Client, p.tunnel, changed); err != nil {
			return nil, err
		}
		// The status that the gateway wrote must count as outdated.
		changed.Generation++
		p.tunnel = changed
	}
	return nil, nil
}

// readTunnel sets p.tunnel to the TunnelEndpoint of the peer; nil if there is none.
func (r *Reconciler) readTunnel(ctx context.Context, p *pass) (err error) {
	p.tunnel, err = r.tunnel(ctx, p.fc.Name)
	return err
}

// tunnel returns the TunnelEndpoint of a peer; nil if there is none.
func (r *Reconciler) tunnel(ctx context.Context, foreignCluster string) (*v1alpha1.TunnelEndpoint, error) {
	tunnel := &v1alpha1.TunnelEndpoint{}
	err := r.installation.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: foreignCluster}, tunnel)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return tunnel, err
}

// tunnels returns the TunnelEndpoints of all peers.
func (r *Reconciler) tunnels(ctx context.Context) ([]*v1alpha1.TunnelEndpoint, error) {
	var all v1alpha1.TunnelEndpointList
	err := r.installation.List(ctx, &all, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy)
	return kit.Pointers(all.Items), err
}

// deleteTunnel deletes the TunnelEndpoint of a peer.
func (r *Reconciler) deleteTunnel(ctx context.Context, foreignCluster string) error {
	tunnel, err := r.tunnel(ctx, foreignCluster)
	if err != nil || tunnel == nil || tunnel.DeletionTimestamp != nil || !isManaged(tunnel) {
		return err
	}
	return kit.Delete(ctx, r.Client, tunnel)
}
