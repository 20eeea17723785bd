// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	netutils "k8s.io/utils/net"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/remote"
)

// exhaustedRetry is how often a pool that had no addresses left is asked again:
// nobody tells when there are some.
const exhaustedRetry = time.Minute

// theirConfigs reads what the other cluster says of its network, and refuses
// what is wrong with it.
func (r *reconciler) theirConfigs(ctx context.Context, p *pass) (*verdict, error) {
	var wrong *verdict
	for _, d := range p.directions {
		config, err := r.configs.NetworkConfigs(d.namespace).Get(d.theirs)
		if apierrors.IsNotFound(err) || err == nil && config.DeletionTimestamp != nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		why, err := r.objection(p, &config.Spec)
		if err != nil {
			return nil, err
		}
		if why == "" {
			p.theirs = append(p.theirs, config)
			continue
		}
		wrong = failing(ReasonNetworkConfigRefused, "What the other cluster says of its network is refused: %s", why)
		if err := r.answer(ctx, config, nil, ReasonNetworkConfigRefused, why); err != nil {
			return nil, err
		}
	}
	if len(p.theirs) > 0 {
		return nil, nil
	}
	// There was a tunnel, perhaps, and the other side ended it.
	if said, err := r.withoutRanges(ctx, p); err != nil || said != nil && said.phase == v1alpha1.PeeringError {
		return said, err
	}
	if err := r.removeMappings(ctx, p.fc.Name, nil); err != nil {
		return nil, err
	}
	if wrong != nil {
		return wrong, nil
	}
	return pending(ReasonAwaitingNetworkConfig, "The other cluster has said nothing of its network: networking has to be Tunnel there, too."), nil
}

// A peer has at most as many addresses of a family as a range of this length: a
// quarter of what AddressPool default has, if nobody says otherwise. What is kept
// as it was announced is taken out of the pool as what is mapped is, and the
// largest part of that would be gone with one peer that has a /8.
const (
	mostIPv4 = 10
	mostIPv6 = 35
)

// tooMuch says that a peer announces more than one may have, by ranges that are all
// different ones; empty if it does not.
func tooMuch(ranges []string) string {
	shares := map[int]float64{}
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		most := mostIPv4
		if prefix.Addr().Is6() {
			most = mostIPv6
		}
		if shares[most] += math.Ldexp(1, most-prefix.Bits()); shares[most] > 1 {
			return fmt.Sprintf("with %s its ranges have more addresses than a /%d, which is the most that one cluster may have here", text, most)
		}
	}
	return ""
}

// objection says what is wrong with what a stranger says of its network.
func (r *reconciler) objection(p *pass, spec *v1alpha1.NetworkConfigSpec) (string, error) {
	errs := validation.ValidateNetworkConfigSpec(&federation.NetworkConfigSpec{
		ClusterID: spec.ClusterID, PodCIDRs: spec.PodCIDRs, ExternalCIDRs: spec.ExternalCIDRs,
		PublicKey: spec.PublicKey, Endpoints: spec.Endpoints, MTU: spec.MTU, Backend: federation.NetworkBackend(spec.Backend),
	})
	if len(errs) > 0 {
		return remote.Text(errs[0].Error()), nil
	}
	switch {
	case spec.ClusterID != p.fc.Spec.ClusterID:
		return fmt.Sprintf("it is the network of cluster %s, and not of the one that the ForeignCluster stands for", spec.ClusterID), nil
	case spec.ClusterID == r.ClusterID:
		return "it is the network of the cluster that reads it", nil
	case spec.Backend != "" && spec.Backend != v1alpha1.BackendWireGuard:
		return fmt.Sprintf("its tunnels are made with %s, and those of cluster %s with %s", spec.Backend, r.ClusterID, v1alpha1.BackendWireGuard), nil
	case spec.PublicKey == p.publicKey || spec.PublicKey == p.told:
		return "its public key is that of the cluster that reads it", nil
	}
	common := r.ranges(spec)
	if len(common) == 0 {
		return fmt.Sprintf("its pods have no addresses of a family that pods of cluster %s have: %s and %s", r.ClusterID, strings.Join(spec.PodCIDRs, ", "), strings.Join(texts(ownRanges(r.infos).Pods), ", ")), nil
	}
	for _, text := range common {
		if !r.Settings.mayHave(text) {
			return fmt.Sprintf("%s is in none of the ranges that other clusters may have here, which network.peerCIDRs lists", text), nil
		}
	}
	// Of two directions with one cluster either has its say.
	for _, other := range p.theirs {
		common = append(common, r.ranges(&other.Spec)...)
	}
	slices.Sort(common)
	if why := tooMuch(slices.Compact(common)); why != "" {
		return why, nil
	}
	if taken, err := r.taken(p.fc, spec.PublicKey); err != nil || taken {
		return "its public key is that of another cluster", err
	}
	// Whom an administrator lets in has its key before there is a tunnel.
	clusters, err := r.clusters.List(everything)
	if slices.ContainsFunc(clusters, func(other *v1alpha1.ForeignCluster) bool {
		return other.Name != p.fc.Name && inBand(other) && other.Spec.Gateway.PublicKey == spec.PublicKey
	}) {
		return "its public key is that of another cluster", err
	}
	return "", err
}

// taken tells whether there is a tunnel to another cluster with a public key.
func (r *reconciler) taken(fc *v1alpha1.ForeignCluster, publicKey string) (bool, error) {
	endpoints, err := r.endpoints.List(everything)
	return slices.ContainsFunc(endpoints, func(other *v1alpha1.TunnelEndpoint) bool {
		return other.Name != fc.Name && other.Spec.PublicKey == publicKey
	}), err
}

// ranges are those of a cluster that are of a family which our pods have, too,
// those of pods first. The others lead nowhere from here.
func (r *reconciler) ranges(spec *v1alpha1.NetworkConfigSpec) []string {
	ours := map[bool]bool{}
	for _, prefix := range ownRanges(r.infos).Pods {
		ours[prefix.Addr().Is6()] = true
	}
	return slices.DeleteFunc(slices.Concat(spec.PodCIDRs, spec.ExternalCIDRs), func(text string) bool { return !ours[netutils.IsIPv6CIDRString(text)] })
}

// attempt is one to have ranges for a foreign cluster, in vain.
type attempt struct {
	// of tells what was asked for.
	of    string
	until time.Time
	said  *verdict
}

// addressMappings has a range here for each of the other cluster's. It keeps all
// or none of the new ones. If one of them cannot be had, that is not tried again
// at once: the others come and go with each attempt, which is told here.
func (r *reconciler) addressMappings(ctx context.Context, p *pass) (*verdict, error) {
	var of strings.Builder
	for _, config := range p.theirs {
		fmt.Fprint(&of, config.UID, " ", config.Generation, " ")
	}
	now := r.Clock.Now()
	if last, ok := r.vain.Load(p.fc.Name); ok {
		if last := last.(attempt); last.of == of.String() && now.Before(last.until) {
			p.after = last.until.Sub(now)
			return last.said, r.giveBack(ctx, p)
		}
	}
	said, err := r.mapRanges(ctx, p)
	if said == nil {
		r.vain.Delete(p.fc.Name)
	} else {
		r.vain.Store(p.fc.Name, attempt{of.String(), now.Add(exhaustedRetry), said})
	}
	return said, err
}

func (r *reconciler) mapRanges(ctx context.Context, p *pass) (*verdict, error) {
	p.mapped = map[string]string{}
	client := r.Federation.FederationV1alpha1().AddressMappings(r.Namespace)
	for _, config := range p.theirs {
		for _, cidr := range r.ranges(&config.Spec) {
			if p.mapped[cidr] != "" {
				continue
			}
			name := mappingName(p.fc, cidr)
			found, err := r.mappings.Get(name)
			if apierrors.IsNotFound(err) {
				mapping := &v1alpha1.AddressMapping{ObjectMeta: managed(p.fc, r.Namespace, name)}
				mapping.Spec = v1alpha1.AddressMappingSpec{ClusterID: p.fc.Spec.ClusterID, Pool: v1alpha1.DefaultAddressPool, CIDR: cidr}
				found, err = client.Create(ctx, mapping, createOptions)
			}
			if apierrors.HasStatusCause(err, v1alpha1.CauseAddressesExhausted) {
				return r.exhausted(ctx, p, config, err)
			}
			if err != nil {
				return nil, fmt.Errorf("map %s of cluster %s: %w", cidr, p.fc.Name, err)
			}
			p.mapped[cidr] = found.Spec.Mapped
		}
	}
	return nil, nil
}

// exhausted gives back what was taken in vain, and tells both sides.
func (r *reconciler) exhausted(ctx context.Context, p *pass, config *v1alpha1.NetworkConfig, cause error) (*verdict, error) {
	p.after = exhaustedRetry
	if err := r.giveBack(ctx, p); err != nil {
		return nil, err
	}
	if err := r.answer(ctx, config, nil, ReasonAddressesExhausted, "there are no addresses left for its ranges"); err != nil {
		return nil, err
	}
	return failing(ReasonAddressesExhausted, "There are no addresses for the other cluster: %s", remote.Text(cause.Error())), nil
}

// giveBack removes what no tunnel uses, as far as the cache knows of it.
func (r *reconciler) giveBack(ctx context.Context, p *pass) error {
	used := map[string]string{}
	if p.endpoint != nil {
		for _, mapping := range p.endpoint.Spec.Remote {
			used[mapping.CIDR] = mapping.Mapped
		}
	}
	return r.removeMappings(ctx, p.fc.Name, used)
}

// mappingName is the name of the AddressMapping of a range of a cluster.
func mappingName(fc *v1alpha1.ForeignCluster, cidr string) string {
	sum := sha256.Sum256([]byte(fc.Spec.ClusterID + " " + cidr))
	return fc.Name + "-" + hex.EncodeToString(sum[:5])
}

// removeMappings removes what is called here by ranges of a foreign cluster,
// but for some. Single addresses are not the tunnel's to remove.
func (r *reconciler) removeMappings(ctx context.Context, foreignCluster string, but map[string]string) error {
	list, err := r.mappings.List(labels.SelectorFromSet(labels.Set{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: foreignCluster,
	}))
	if err != nil {
		return err
	}
	for _, mapping := range list {
		if mapping.DeletionTimestamp != nil || isSingle(mapping) || but[mapping.Spec.CIDR] == mapping.Spec.Mapped {
			continue
		}
		err := r.Federation.FederationV1alpha1().AddressMappings(r.Namespace).Delete(ctx, mapping.Name, exactly(mapping))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove AddressMapping %s/%s: %w", r.Namespace, mapping.Name, err)
		}
	}
	return nil
}

// answers tells the other cluster what its ranges are called here.
func (r *reconciler) answers(ctx context.Context, p *pass) (*verdict, error) {
	for _, config := range p.theirs {
		var list []v1alpha1.CIDRMapping
		for _, cidr := range r.ranges(&config.Spec) {
			list = append(list, v1alpha1.CIDRMapping{CIDR: cidr, Mapped: p.mapped[cidr]})
		}
		if err := r.answer(ctx, config, list, ReasonAccepted, ""); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// answer says of a NetworkConfig of the other cluster what its ranges are
// called here, or why it is refused.
func (r *reconciler) answer(ctx context.Context, config *v1alpha1.NetworkConfig, list []v1alpha1.CIDRMapping, reason, why string) error {
	answered := config.DeepCopy()
	answered.Status.ObservedGeneration, answered.Status.CIDRs = config.Generation, list
	status := metav1.ConditionFalse
	if reason == ReasonAccepted {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&answered.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: status, Reason: reason, Message: why, ObservedGeneration: config.Generation,
	})
	_, err := commit.Commit(ctx, r.Federation.FederationV1alpha1().NetworkConfigs(config.Namespace), config, answered)
	return err
}

// accepted is what was answered to a NetworkConfig.
func accepted(config *v1alpha1.NetworkConfig) *metav1.Condition {
	return meta.FindStatusCondition(config.Status.Conditions, v1alpha1.ConditionAccepted)
}

func refused(why string) *verdict {
	return failing(ReasonPeerRefuses, "The other cluster refuses what this one says of its network: %s", remote.Text(why))
}

func internal(list []v1alpha1.CIDRMapping) []federation.CIDRMapping {
	mappings := make([]federation.CIDRMapping, 0, len(list))
	for _, mapping := range list {
		mappings = append(mappings, federation.CIDRMapping(mapping))
	}
	return mappings
}
