// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit"
)

const (
	// ReasonTooManyRanges means that an AddressPool cannot reserve all ranges of the local cluster.
	ReasonTooManyRanges = "TooManyRanges"
	// ReasonNoExternalAddresses means that an AddressPool has no external CIDR.
	ReasonNoExternalAddresses = "NoExternalAddresses"
)

// ensurePools creates the AddressPools, and keeps them as the settings and the ranges of the
// local cluster demand. A pool of an administrator, without the label of controllers, is left
// alone.
func (r *Reconciler) ensurePools(ctx context.Context, p *pass) (*state, error) {
	// Of two passes that take an external CIDR at once, one would fail.
	r.pooling.Lock()
	defer r.pooling.Unlock()
	external, missing, err := r.externalCIDRs(ctx, p.ranges.Pods)
	if err != nil {
		return nil, err
	}
	if err := r.ensureDefaultPool(ctx, p.ranges, external); err != nil {
		return nil, err
	}
	if p.external, err = r.takeExternal(ctx, p.ranges, external, missing); err != nil || len(p.external) == 0 {
		return nil, err
	}
	return nil, r.ensurePool(ctx, v1alpha1.ExternalAddressPool, v1alpha1.AddressPoolSpec{CIDRs: p.external}, 0)
}

// ensureDefaultPool keeps the pool that ranges of peers are remapped to. It reserves the ranges
// of the local cluster, and external CIDRs.
func (r *Reconciler) ensureDefaultPool(ctx context.Context, own netmap.Ranges, external []string) error {
	reserved, left := reserved(own, external)
	spec := v1alpha1.AddressPoolSpec{CIDRs: r.Settings.PoolCIDRs, Reserved: reserved}
	return r.ensurePool(ctx, v1alpha1.DefaultAddressPool, spec, left)
}

// ensurePool keeps one of the pools; left is how many ranges it has no room for.
func (r *Reconciler) ensurePool(ctx context.Context, name string, spec v1alpha1.AddressPoolSpec, left int) error {
	existing, err := r.pool(ctx, r.Client, name)
	if err != nil {
		return err
	}
	if existing == nil {
		pool := &v1alpha1.AddressPool{Spec: spec}
		pool.Name, pool.Labels = name, map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
		err := r.Client.Create(ctx, pool)
		if err == nil {
			r.recordUnreserved(pool, left)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating AddressPool %s: %w", name, err)
		}
		// It was created a moment ago, possibly with another spec.
		if existing, err = r.pool(ctx, r.Live, name); err != nil {
			return err
		}
	}
	if existing == nil || !isManaged(existing) || equality.Semantic.DeepEqual(existing.Spec, spec) {
		return nil
	}
	changed := existing.DeepCopy()
	changed.Spec = spec
	if _, err := kit.Commit(ctx, r.Client, existing, changed); err != nil {
		return err
	}
	r.recordUnreserved(existing, left)
	return nil
}

// pool returns an AddressPool; nil if there is none.
func (r *Reconciler) pool(ctx context.Context, reader client.Reader, name string) (*v1alpha1.AddressPool, error) {
	pool := &v1alpha1.AddressPool{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, pool); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading AddressPool %s: %w", name, err)
	}
	return pool, nil
}

// recordUnreserved emits an event about ranges that a pool has no room to reserve.
func (r *Reconciler) recordUnreserved(pool *v1alpha1.AddressPool, left int) {
	if left > 0 && pool.Name == v1alpha1.DefaultAddressPool {
		r.Events.Eventf(pool, corev1.EventTypeWarning, ReasonTooManyRanges,
			"%d more ranges and addresses of this cluster's nodes are not reserved, "+
				"and ranges of peers may be remapped to them: "+
				"set network.nodeCIDRs and network.podCIDRs to CIDRs that contain them.", left)
	}
}

// reserved returns the ranges that no peer may have: external CIDRs, and then the others of
// the local cluster that none of these contains, the larger ones first. left is how many more
// there are than a pool has room for.
func reserved(own netmap.Ranges, external []string) (cidrs []string, left int) {
	all := slices.Concat(own.Pods, own.Services, own.Nodes, own.External, own.Reserved)
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	var kept []netip.Prefix
	for _, text := range external {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			kept = append(kept, prefix)
		}
	}
	for _, cidr := range all {
		if !netmap.Covers(kept, cidr) {
			kept = append(kept, cidr)
		}
	}
	return texts(kept[:min(len(kept), validation.MaxReservedCIDRs)]), max(len(kept)-validation.MaxReservedCIDRs, 0)
}

// texts returns CIDRs as objects name them.
func texts(cidrs []netip.Prefix) []string {
	var all []string
	for _, cidr := range cidrs {
		all = append(all, cidr.String())
	}
	return all
}
