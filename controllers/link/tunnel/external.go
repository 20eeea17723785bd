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

// NoExternalCIDRs is the value of Settings.ExternalCIDRs for a cluster without external CIDRs.
const NoExternalCIDRs = "None"

// family has the sizes with which an external CIDR of one IP family is allocated.
type family struct {
	name string
	is4  bool
	// bits is the prefix length of the external CIDR. poolBits is the greatest prefix length of a CIDR
	// of the pool from which it may be allocated.
	bits, poolBits int
}

// families are the two IP families. An IPv4 external CIDR, a /18, has more addresses than the 10000 mappings that a
// tunnel may have, and a /8 contains 1024 of them. CIDRs of the pool with a prefix length above poolBits are left for
// remapping, because the range of one peer may need all of such a CIDR.
var families = []family{{"IPv4", true, 18, 12}, {"IPv6", false, 112, 40}}

// of returns the valid CIDRs of the family.
func (f family) of(cidrs []string) []netip.Prefix {
	return slices.DeleteFunc(netmap.ParseCIDRs(cidrs), func(p netip.Prefix) bool { return p.Addr().Is4() != f.is4 })
}

// preferred returns a range at the upper end of the first CIDR of the pool that is large enough, because
// administrators rarely choose ranges there. It returns false if no CIDR is large enough.
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

// externalCIDRs returns the external CIDRs of the local cluster: the CIDRs in the settings or, if the settings
// name none, the CIDRs of AddressPool external. It returns none in the latter case if an administrator created
// AddressPool external or default. missing are the IP families of pods for which an external CIDR has to be
// allocated.
func (r *Reconciler) externalCIDRs(
	ctx context.Context, pods []netip.Prefix,
) (cidrs []string, missing []family, err error) {
	if !r.Settings.takesExternal() {
		// CIDRs that overlap pod CIDRs are left out; ClusterInfo local reports them.
		return slices.DeleteFunc(slices.Clone(r.Settings.External()), func(text string) bool {
			prefix, err := netip.ParsePrefix(text)
			return err == nil && slices.ContainsFunc(pods, prefix.Overlaps)
		}), nil, nil
	}
	pool, err := r.pool(ctx, r.Client, v1alpha1.ExternalAddressPool)
	if err == nil && pool == nil {
		// The pool may have been created a moment ago, and not be in the cache yet.
		pool, err = r.pool(ctx, r.Live, v1alpha1.ExternalAddressPool)
	}
	if err != nil || pool != nil && !isManaged(pool) {
		return nil, nil, err
	}
	defaults, err := r.pool(ctx, r.Client, v1alpha1.DefaultAddressPool)
	if err != nil || defaults != nil && !isManaged(defaults) {
		// Only the administrator of AddressPool default decides which ranges the pool reserves.
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
		// The pod CIDRs may have changed after the external CIDR was allocated.
		if len(found) == 1 && !slices.ContainsFunc(pods, found[0].Overlaps) {
			cidrs = append(cidrs, found[0].String())
		} else {
			missing = append(missing, f)
		}
	}
	return cidrs, missing, nil
}

// takeExternal allocates a range for each missing family, and returns the CIDRs in external together with these
// ranges. An AddressMapping allocates a range, so that the range overlaps no remapped range. The AddressMapping is
// deleted only after AddressPool default reserves the range in addition to own, and the range is announced to peers
// after that.
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

// allocateExternal allocates a range of a family, and returns its AddressMapping. If no range is free,
// it returns nil, emits an event once, and does not try again before exhaustedRetry.
func (r *Reconciler) allocateExternal(ctx context.Context, f family) (*v1alpha1.AddressMapping, error) {
	now := r.Clock.Now()
	if before, ok := r.externalAttempts.Load(f); ok && now.Before(before.(attempt).until) {
		return nil, nil
	}
	preferred, ok := f.preferred(r.Settings.PoolCIDRs)
	why := fmt.Sprintf("network.poolCIDRs have no CIDR of this family that is a /%d or larger", f.poolBits)
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
			"No %s range is free for an external CIDR: %s. Set network.externalCIDRs in the values of the chart to a CIDR, "+
				"or to %s for a cluster without external CIDRs.", f.name, why, NoExternalCIDRs)
	}
	return nil, nil
}

// mapExternal creates the AddressMapping that allocates a range, and returns it. If an earlier reconcile
// created it and failed later, mapExternal returns the existing one.
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
		return nil, fmt.Errorf("allocating an external CIDR: %w", err)
	}
	return mapping, nil
}
