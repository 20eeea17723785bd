// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// A peer may have at most as many IPv4 or IPv6 addresses as a CIDR of this prefix length, which is a
// quarter of the default size of AddressPool default. Otherwise a peer with a /8 would use most of the
// pool, because a range uses the pool even if it is not remapped.
const (
	maxBits4 = 10
	maxBits6 = 35
)

// readRemoteConfigs, a step of agree, sets p.remote to the NetworkConfigs of the peer that this cluster accepts, and
// refuses the others in their status. If none is left, it removes the ranges from the tunnel.
func (r *Reconciler) readRemoteConfigs(ctx context.Context, p *pass) (*state, error) {
	var refusal *state
	for _, d := range p.directions {
		config, err := r.config(ctx, d.namespace, d.remote)
		if err != nil {
			return nil, err
		}
		if config == nil || config.DeletionTimestamp != nil {
			continue
		}
		why, err := r.objection(ctx, p, &config.Spec)
		if err != nil {
			return nil, err
		}
		if why == "" {
			p.remote = append(p.remote, config)
			continue
		}
		refusal = failing(ReasonNetworkConfigRefused, "The NetworkConfig of the peer is refused: %s", why)
		if err := r.answer(ctx, config, nil, ReasonNetworkConfigRefused, why); err != nil {
			return nil, err
		}
	}
	if len(p.remote) > 1 && p.remote[0].Spec.PublicKey != p.remote[1].Spec.PublicKey {
		return r.differingKeys(ctx, p)
	}
	if len(p.remote) > 0 {
		return nil, nil
	}
	// The tunnel may exist, if the peer deleted its NetworkConfig or changed it to a refused one.
	if current, err := r.withoutRanges(ctx, p); err != nil || current != nil && current.phase == v1alpha1.PeeringError {
		return current, err
	}
	if err := r.deleteMappings(ctx, p.fc.Name, nil); err != nil {
		return nil, err
	}
	if refusal != nil {
		return refusal, nil
	}
	return pending(ReasonAwaitingNetworkConfig,
		"The peer has not created a NetworkConfig yet: its ForeignCluster for this cluster must have networking "+
			"Tunnel, too."), nil
}

// differingKeys returns the state of a peer whose NetworkConfigs have different keys. One of them may be of another
// cluster that claims to be the peer, so that no tunnel is set up. A tunnel with one of the keys is kept, because the
// keys also differ for a moment when the peer replaces its key.
func (r *Reconciler) differingKeys(ctx context.Context, p *pass) (*state, error) {
	current := pending(ReasonKeysDiffer, "The NetworkConfigs of the peer in namespaces %s and %s have different public "+
		"keys: one of them may be of another cluster. If this lasts, disable the direction that is not enabled in the peer.",
		p.remote[0].Namespace, p.remote[1].Namespace)
	if p.tunnel != nil && slices.ContainsFunc(p.remote, func(config *v1alpha1.NetworkConfig) bool {
		return config.Spec.PublicKey == p.tunnel.Spec.PublicKey
	}) {
		return current, nil
	}
	if alone, err := r.withoutRanges(ctx, p); err != nil || alone != nil && alone.phase == v1alpha1.PeeringError {
		return alone, err
	}
	return current, nil
}

// objection returns the reason why this cluster does not accept the NetworkConfig of a peer; empty if it does. The
// API server has validated each field, so this function checks only what depends on this cluster and on other peers.
// Conditions in both clusters show the reason.
func (r *Reconciler) objection(ctx context.Context, p *pass, spec *v1alpha1.NetworkConfigSpec) (string, error) {
	switch {
	case spec.ClusterID != p.fc.Spec.ClusterID:
		return fmt.Sprintf("it describes the network of cluster %s instead of cluster %s",
			spec.ClusterID, p.fc.Spec.ClusterID), nil
	case spec.ClusterID == r.ClusterID:
		return "it describes the network of the cluster that reads this NetworkConfig", nil
	case spec.Backend != "" && spec.Backend != v1alpha1.BackendWireGuard:
		return fmt.Sprintf("its tunnels use %s, and the tunnels of cluster %s use %s",
			spec.Backend, r.ClusterID, v1alpha1.BackendWireGuard), nil
	case spec.PublicKey == p.newKey || spec.PublicKey == p.usedKey:
		return "its public key belongs to the cluster that reads this NetworkConfig", nil
	}
	common := p.commonRanges(spec)
	if len(common) == 0 {
		return fmt.Sprintf("its pods have no IP family in common with the pods of cluster %s: %s and %s",
			r.ClusterID, strings.Join(spec.PodCIDRs, ", "), strings.Join(texts(p.ranges.Pods), ", ")), nil
	}
	for _, text := range common {
		if !r.Settings.permits(text) {
			return fmt.Sprintf("%s is in none of the CIDRs that network.peerCIDRs of cluster %s permits",
				text, r.ClusterID), nil
		}
	}
	// The limit counts the ranges of both directions together.
	for _, other := range p.remote {
		common = append(common, p.commonRanges(&other.Spec)...)
	}
	slices.Sort(common)
	if why := exceeded(slices.Compact(common)); why != "" {
		return why, nil
	}
	if used, err := r.usesKey(ctx, p.fc, spec.PublicKey); err != nil || used {
		return "its public key belongs to another cluster", err
	}
	// The public key of a peer with mode InBand is in the spec of its ForeignCluster before there is a tunnel.
	var clusters v1alpha1.ForeignClusterList
	if err := r.Client.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	for i := range clusters.Items {
		if other := &clusters.Items[i]; other.Name != p.fc.Name && inBand(other) &&
			other.Spec.Gateway.PublicKey == spec.PublicKey {
			return "its public key belongs to another cluster", nil
		}
	}
	return "", nil
}

// exceeded returns the reason for refusing ranges that together have more IPv4 addresses than a CIDR of maxBits4, or
// more IPv6 addresses than one of maxBits6; empty if they do not. The ranges must be distinct.
func exceeded(ranges []string) string {
	shares := map[int]float64{}
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		most := maxBits4
		if prefix.Addr().Is6() {
			most = maxBits6
		}
		if shares[most] += math.Ldexp(1, most-prefix.Bits()); shares[most] > 1 {
			return fmt.Sprintf("with %s, its ranges have more addresses than a /%d, which is the limit for one peer",
				text, most)
		}
	}
	return ""
}

// usesKey reports whether the tunnel to another peer than fc uses a public key.
func (r *Reconciler) usesKey(ctx context.Context, fc *v1alpha1.ForeignCluster, publicKey string) (bool, error) {
	tunnels, err := r.tunnels(ctx)
	return slices.ContainsFunc(tunnels, func(other *v1alpha1.TunnelEndpoint) bool {
		return other.Name != fc.Name && other.Spec.PublicKey == publicKey
	}), err
}

// commonRanges returns the ranges in the NetworkConfig of a peer whose IP family the local pods have,
// pod CIDRs first. Local pods cannot reach ranges of another family.
func (p *pass) commonRanges(spec *v1alpha1.NetworkConfigSpec) []string {
	families := map[bool]bool{}
	for _, prefix := range p.ranges.Pods {
		families[prefix.Addr().Is6()] = true
	}
	return slices.DeleteFunc(slices.Concat(spec.PodCIDRs, spec.ExternalCIDRs), func(text string) bool {
		return !families[netutils.IsIPv6CIDRString(text)]
	})
}

// answerConfigs, a step of agree, writes the ranges that were allocated for the peer's ranges to the status of the
// peer's NetworkConfigs.
func (r *Reconciler) answerConfigs(ctx context.Context, p *pass) (*state, error) {
	for _, config := range p.remote {
		var list []v1alpha1.CIDRMapping
		for _, cidr := range p.commonRanges(&config.Spec) {
			list = append(list, v1alpha1.CIDRMapping{CIDR: cidr, Mapped: p.remapped[cidr]})
		}
		if err := r.answer(ctx, config, list, ReasonAccepted, ""); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// answer writes the mappings in list, or why as the message of a refusal, to the status of a peer's NetworkConfig.
func (r *Reconciler) answer(
	ctx context.Context, config *v1alpha1.NetworkConfig, list []v1alpha1.CIDRMapping, reason, why string,
) error {
	answered := config.DeepCopy()
	answered.Status.ObservedGeneration, answered.Status.CIDRs = config.Generation, list
	status := metav1.ConditionFalse
	if reason == ReasonAccepted {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&answered.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: status, Reason: reason, Message: why, ObservedGeneration: config.Generation,
	})
	_, err := kit.Commit(ctx, r.Client, config, answered)
	return err
}

// accepted returns the condition Accepted of a NetworkConfig; nil before it is answered.
func accepted(config *v1alpha1.NetworkConfig) *metav1.Condition {
	return meta.FindStatusCondition(config.Status.Conditions, v1alpha1.ConditionAccepted)
}
