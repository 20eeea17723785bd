// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// NoExternalCIDRs is the value of Settings.ExternalCIDRs with which the local cluster has none.
const NoExternalCIDRs = "None"

// family is what a cluster takes for its external CIDR of one family.
type family struct {
	name string
	is4  bool
	// bits is the length of the external CIDR, and poolBits the greatest length of a CIDR of the
	// pool that it is taken from.
	bits, poolBits int
}

// families are both. 16384 addresses are more than one tunnel takes, and a /8 has a thousand such
// ranges. A smaller CIDR of the pool is left to peers, whose ranges may be as large as it.
var families = []family{{"IPv4", true, 18, 12}, {"IPv6", false, 112, 40}}

// of returns those CIDRs that are of a family.
func (f family) of(cidrs []string) []netip.Prefix {
	var found []netip.Prefix
	for _, text := range cidrs {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() == f.is4 {
			found = append(found, prefix)
		}
	}
	return found
}

// preferred returns the upper end of the first CIDR of the pool that is large enough, where
// ranges that people choose rarely are; false if none is.
func (f family) preferred(pool []string) (netip.Prefix, bool) {
	for _, cidr := range f.of(pool) {
		if cidr.Bits() <= f.poolBits {
			return netip.PrefixFrom(last(cidr), f.bits).Masked(), true
		}
	}
	return netip.Prefix{}, false
}

// last returns the last address of a range.
func last(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for i := prefix.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}

// externalCIDRs returns the external CIDRs of the local cluster: those of the settings, otherwise
// those of the pool external, if this controller created it. missing are the families that are to
// have one and do not.
func (r *Reconciler) externalCIDRs(
	ctx context.Context, pods []netip.Prefix,
) (cidrs []string, missing []family, err error) {
	if !r.Settings.takesExternal() {
		// ClusterInfo local reports those that overlap ranges of pods.
		return slices.DeleteFunc(slices.Clone(r.Settings.External()), func(text string) bool {
			prefix, err := netip.ParsePrefix(text)
			return err == nil && slices.ContainsFunc(pods, prefix.Overlaps)
		}), nil, nil
	}
	pool, err := r.pool(ctx, r.Client, v1alpha1.ExternalAddressPool)
	if err == nil && pool == nil {
		// It may have been created a moment ago.
		pool, err = r.pool(ctx, r.Live, v1alpha1.ExternalAddressPool)
	}
	if err != nil || pool != nil && !isManaged(pool) {
		return nil, nil, err
	}
	defaults, err := r.pool(ctx, r.Client, v1alpha1.DefaultAddressPool)
	if err != nil || defaults != nil && !isManaged(defaults) {
		// An administrator decides what the pool reserves.
		return nil, nil, err
	}
	for _, f := range families {
		pods := f.of(texts(pods))
		if len(pods) == 0 {
			continue
		}
		found := []netip.Prefix{}
		if pool != nil {
			found = f.of(pool.Spec.CIDRs)
		}
		// Ranges of pods may have changed since.
		if len(found) == 1 && !slices.ContainsFunc(pods, found[0].Overlaps) {
			cidrs = append(cidrs, found[0].String())
		} else {
			missing = append(missing, f)
		}
	}
	return cidrs, missing, nil
}

// takeExternal takes a range for each family without one, and returns all external CIDRs. The
// range is allocated by an AddressMapping, like those of peers, so that no peer has it. The pool
// default reserves it before the AddressMapping is deleted and before it is announced.
func (r *Reconciler) takeExternal(
	ctx context.Context, own netmap.Ranges, external []string, missing []family,
) ([]string, error) {
	var allocated []*v1alpha1.AddressMapping
	for _, f := range missing {
		mapping, err := r.allocateExternal(ctx, f)
		if err != nil {
			return nil, err
		}
		if mapping != nil {
			allocated, external = append(allocated, mapping), append(external, mapping.Spec.Mapped)
		}
	}
	if len(allocated) == 0 {
		return external, nil
	}
	if err := r.ensureDefaultPool(ctx, own, external); err != nil {
		return nil, err
	}
	for _, mapping := range allocated {
		if err := kit.Delete(ctx, r.Client, mapping); err != nil {
			return nil, err
		}
	}
	return external, nil
}

// allocateExternal allocates a range of a family; nil if there is none, which an event reports
// once.
func (r *Reconciler) allocateExternal(ctx context.Context, f family) (*v1alpha1.AddressMapping, error) {
	now := r.Clock.Now()
	if before, ok := r.externalAttempts.Load(f); ok && now.Before(before.(attempt).until) {
		return nil, nil
	}
	preferred, ok := f.preferred(r.Settings.PoolCIDRs)
	why := fmt.Sprintf("network.poolCIDRs have no CIDR of it that is a /%d or larger", f.poolBits)
	if ok {
		mapping, err := r.mapExternal(ctx, f, preferred)
		if !apierrors.HasStatusCause(err, v1alpha1.CauseAddressesExhausted) {
			r.externalAttempts.Delete(f)
			return mapping, err
		}
		why = remote.Text(err.Error())
	}
	pool, err := r.pool(ctx, r.Client, v1alpha1.DefaultAddressPool)
	if err != nil || pool == nil {
		return nil, err // the event is emitted once the cache has the pool
	}
	if _, reported := r.externalAttempts.Swap(f, attempt{until: now.Add(exhaustedRetry)}); !reported {
		r.Events.Eventf(pool, corev1.EventTypeWarning, ReasonNoExternalAddresses,
			"There is no range of %s for an external CIDR: name one in network.externalCIDRs, or %s to have none: %s",
			f.name, NoExternalCIDRs, why)
	}
	return nil, nil
}

// mapExternal returns the AddressMapping that allocates a range. One of an earlier pass that did
// not end is used.
func (r *Reconciler) mapExternal(
	ctx context.Context, f family, preferred netip.Prefix,
) (*v1alpha1.AddressMapping, error) {
	mapping := &v1alpha1.AddressMapping{Spec: v1alpha1.AddressMappingSpec{
		ClusterID: r.ClusterID, Pool: v1alpha1.DefaultAddressPool, CIDR: preferred.String(),
	}}
	mapping.Namespace, mapping.Name = r.Namespace, v1alpha1.ExternalAddressPool+"-"+strings.ToLower(f.name)
	mapping.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	err := r.Client.Create(ctx, mapping)
	if apierrors.IsAlreadyExists(err) {
		existing := &v1alpha1.AddressMapping{}
		if r.installation.Get(ctx, client.ObjectKeyFromObject(mapping), existing) == nil {
			return existing, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("taking an external CIDR: %w", err)
	}
	return mapping, nil
}
