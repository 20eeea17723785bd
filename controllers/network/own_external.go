// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/remote"
)

// NoExternalCIDRs is what an administrator names in place of external CIDRs, who
// wants this cluster to have none.
const NoExternalCIDRs = "None"

// family is what a cluster takes for itself of the addresses of one family.
type family struct {
	name string
	v4   bool
	// bits are the length of the range that is taken, and of the smallest CIDR of
	// the pool that it is taken of.
	bits, of int
}

// families are both. 16384 addresses are more than one tunnel takes, and a /8
// has a thousand such ranges. A pool that is small is for other clusters: without
// a part of it, it may have no range left that is as large as theirs.
var families = []family{{"IPv4", true, 18, 12}, {"IPv6", false, 112, 40}}

// among are those CIDRs that are of a family.
func (f family) among(cidrs []string) []netip.Prefix {
	var found []netip.Prefix
	for _, text := range cidrs {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() == f.v4 {
			found = append(found, prefix)
		}
	}
	return found
}

// asked is the range that is asked for: the upper end of the first CIDR of the
// pool that is large enough, where what people choose by hand is not; false if
// there is no such one.
func (f family) asked(pool []string) (netip.Prefix, bool) {
	for _, cidr := range f.among(pool) {
		if cidr.Bits() <= f.of {
			return netip.PrefixFrom(last(cidr), f.bits).Masked(), true
		}
	}
	return netip.Prefix{}, false
}

// last is the last address of a range.
func last(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for i := prefix.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}

// ownExternal are the external CIDRs that this cluster has: those that an
// administrator names, or else those of the pool of that name which this
// controller made. missing are the families that have none yet and are to have
// one.
func (r *reconciler) ownExternal(ctx context.Context, pods []netip.Prefix) (cidrs []string, missing []family, err error) {
	if !r.Settings.takesExternal() {
		// ClusterInfo local states those that pods have addresses in.
		return slices.DeleteFunc(slices.Clone(r.Settings.External()), func(text string) bool {
			prefix, err := netip.ParsePrefix(text)
			return err == nil && slices.ContainsFunc(pods, prefix.Overlaps)
		}), nil, nil
	}
	pool, err := r.pools.Get(ExternalAddressPool)
	if apierrors.IsNotFound(err) {
		// What was made a moment ago is not to be made again.
		pool, err = r.Federation.FederationV1alpha1().AddressPools().Get(ctx, ExternalAddressPool, metav1.GetOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("look for AddressPool %s: %w", ExternalAddressPool, err)
	}
	if err == nil && !isOurs(pool) || r.isForeign(v1alpha1.DefaultAddressPool) {
		return nil, nil, nil
	}
	for _, f := range families {
		pods := f.among(texts(pods))
		if len(pods) == 0 {
			continue
		}
		found := []netip.Prefix{}
		if err == nil {
			found = f.among(pool.Spec.CIDRs)
		}
		// What pods have got since is theirs.
		if len(found) == 1 && !slices.ContainsFunc(pods, found[0].Overlaps) {
			cidrs = append(cidrs, found[0].String())
		} else {
			missing = append(missing, f)
		}
	}
	return cidrs, missing, nil
}

// isForeign tells whether an administrator made a pool, who then says what it
// reserves.
func (r *reconciler) isForeign(name string) bool {
	pool, err := r.pools.Get(name)
	return err == nil && !isOurs(pool)
}

// takeExternal takes a range for each family that has none, and tells which. It
// is drawn as those of other clusters are, by an AddressMapping: so it is nobody
// else's. The pool default reserves it before the mapping goes, and before anybody
// is told.
func (r *reconciler) takeExternal(ctx context.Context, own netmap.Ranges, has []string, missing []family) ([]string, error) {
	var drawn []*v1alpha1.AddressMapping
	for _, f := range missing {
		mapping, err := r.draw(ctx, f)
		if err != nil {
			return nil, err
		}
		if mapping != nil {
			drawn, has = append(drawn, mapping), append(has, mapping.Spec.Mapped)
		}
	}
	if len(drawn) == 0 {
		return has, nil
	}
	if err := r.defaultPool(ctx, own, has); err != nil {
		return nil, err
	}
	for _, mapping := range drawn {
		err := r.Federation.FederationV1alpha1().AddressMappings(r.Namespace).Delete(ctx, mapping.Name, exactly(mapping))
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("remove AddressMapping %s/%s: %w", r.Namespace, mapping.Name, err)
		}
	}
	return has, nil
}

// draw has a range that is nobody's; nil if there is none, which is told once.
func (r *reconciler) draw(ctx context.Context, f family) (*v1alpha1.AddressMapping, error) {
	now := r.Clock.Now()
	if before, ok := r.vain.Load(f); ok && now.Before(before.(attempt).until) {
		return nil, nil
	}
	asked, ok := f.asked(r.Settings.PoolCIDRs)
	why := fmt.Sprintf("network.poolCIDRs have no CIDR of it that is a /%d or larger", f.of)
	if ok {
		drawn, err := r.drawn(ctx, f, asked)
		if !apierrors.HasStatusCause(err, v1alpha1.CauseAddressesExhausted) {
			r.vain.Delete(f)
			return drawn, err
		}
		why = remote.Text(err.Error())
	}
	pool, err := r.pools.Get(v1alpha1.DefaultAddressPool)
	if err != nil {
		return nil, nil // it is told when the pool is seen
	}
	if _, told := r.vain.Swap(f, attempt{until: now.Add(exhaustedRetry)}); !told {
		r.Events.Eventf(pool, corev1.EventTypeWarning, ReasonNoExternalAddresses,
			"There is no range of %s for what is no pod here: name one in network.externalCIDRs, or %s to have none: %s", f.name, NoExternalCIDRs, why)
	}
	return nil, nil
}

// drawn is the mapping that a range is drawn by. One that was made before and not
// written down is as good.
func (r *reconciler) drawn(ctx context.Context, f family, asked netip.Prefix) (*v1alpha1.AddressMapping, error) {
	mapping := &v1alpha1.AddressMapping{Spec: v1alpha1.AddressMappingSpec{ClusterID: r.ClusterID, Pool: v1alpha1.DefaultAddressPool, CIDR: asked.String()}}
	mapping.Namespace, mapping.Name = r.Namespace, ExternalAddressPool+"-"+strings.ToLower(f.name)
	mapping.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	made, err := r.Federation.FederationV1alpha1().AddressMappings(r.Namespace).Create(ctx, mapping, createOptions)
	if stale(err) {
		if known, unknown := r.mappings.Get(mapping.Name); unknown == nil {
			return known, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take an external CIDR: %w", err)
	}
	return made, nil
}
