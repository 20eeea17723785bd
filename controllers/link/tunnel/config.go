// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// findMTU, a step of agree, sets p.mtu to the MTU in the settings or the MTU that the gateway measured for this
// tunnel, whichever is lower. If nothing was measured for this tunnel yet, the lowest MTU that was measured for
// another tunnel is used, because all tunnels have the same gateway.
func (r *Reconciler) findMTU(ctx context.Context, p *pass) (*state, error) {
	var measured int32
	if p.tunnel != nil {
		measured = p.tunnel.Status.MTU
	}
	if measured == 0 {
		others, err := r.tunnels(ctx)
		if err != nil {
			return nil, err
		}
		for _, other := range others {
			measured = lower(measured, other.Status.MTU)
		}
	}
	p.mtu = lower(r.Settings.MTU, measured)
	return nil, nil
}

// lower returns the lower one of two MTUs, where 0 means that an MTU is unknown.
func lower(a, b int32) int32 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// ensureConfigs, a step of agree, ensures the local NetworkConfig, which describes the local network to the peer, in
// the namespace of each direction.
func (r *Reconciler) ensureConfigs(ctx context.Context, p *pass) (*state, error) {
	spec := v1alpha1.NetworkConfigSpec{
		ClusterID: r.ClusterID, PodCIDRs: texts(p.ranges.Pods), ExternalCIDRs: p.external, PublicKey: p.usedKey,
		Endpoints: p.endpoints, MTU: p.mtu, Backend: v1alpha1.BackendWireGuard,
	}
	for _, d := range p.directions {
		config, err := r.config(ctx, d.namespace, d.local)
		if err != nil {
			return nil, err
		}
		if config != nil {
			var left time.Duration
			spec.Endpoints, left = r.settled(&p.facts, config.Spec.Endpoints)
			p.after = kit.Sooner(p.after, left)
		}
		switch {
		case config == nil:
			config = &v1alpha1.NetworkConfig{ObjectMeta: managed(p.fc, d.namespace, d.local), Spec: spec}
			if err := r.Client.Create(ctx, config); err != nil {
				return nil, fmt.Errorf("creating NetworkConfig %s/%s: %w", d.namespace, d.local, err)
			}
		case config.Spec.ClusterID != r.ClusterID:
			// The cluster ID is immutable.
			if err := kit.Delete(ctx, r.Client, config); err != nil {
				return nil, err
			}
			return pending(ReasonAwaitingAnswer,
				"NetworkConfig %s/%s has an outdated cluster ID, and is being replaced.",
				d.namespace, d.local), nil
		case !isManaged(config) || !equality.Semantic.DeepEqual(config.Spec, spec):
			changed := config.DeepCopy()
			changed.Spec, changed.Labels = spec, managed(p.fc, d.namespace, d.local).Labels
			if _, err := kit.Commit(ctx, r.Client, config, changed); err != nil {
				return nil, err
			}
			// The peer has not answered the new spec.
			config = nil
		}
		if config != nil {
			p.local = append(p.local, config)
		}
	}
	return nil, nil
}

// answered returns the CIDRs to which the peer remaps the local ranges, or a state if the peer refused
// the NetworkConfig. Both are nil until the peer has answered the current NetworkConfig.
func (p *pass) answered() ([]v1alpha1.CIDRMapping, *state) {
	for _, config := range p.local {
		accepted := accepted(config)
		switch {
		case config.Status.ObservedGeneration < config.Generation || accepted == nil:
		case accepted.Status == metav1.ConditionTrue:
			if local := complete(config.Spec, config.Status.CIDRs); local != nil {
				return local, nil
			}
		case accepted.Status == metav1.ConditionFalse:
			return nil, refused(accepted)
		}
	}
	return nil, nil
}

// complete returns the mappings in the peer's answer in the order of the ranges in spec; nil if the
// answer lacks one. Ranges of an IP family that the answer does not contain at all are skipped,
// because the peer's pods do not have that family.
func complete(spec v1alpha1.NetworkConfigSpec, answer []v1alpha1.CIDRMapping) []v1alpha1.CIDRMapping {
	var list []v1alpha1.CIDRMapping
	for _, cidr := range slices.Concat(spec.PodCIDRs, spec.ExternalCIDRs) {
		at := slices.IndexFunc(answer, func(m v1alpha1.CIDRMapping) bool { return m.CIDR == cidr })
		switch {
		case at >= 0:
			list = append(list, answer[at])
		case slices.ContainsFunc(answer, func(m v1alpha1.CIDRMapping) bool {
			return netutils.IsIPv6CIDRString(m.CIDR) == netutils.IsIPv6CIDRString(cidr)
		}):
			return nil
		}
	}
	return list
}
