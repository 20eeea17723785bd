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
	// ReasonTooManyRanges of an event on AddressPool default means that the local cluster has more than the 256
	// ranges that the pool can reserve, so ranges of peers may be remapped to the smallest of them, normally
	// addresses of nodes. Set network.nodeCIDRs and network.podCIDRs to CIDRs that contain them.
	ReasonTooManyRanges = "TooManyRanges"
	// ReasonNoExternalAddresses of an event on AddressPool default means that the pool has no range for an external
	// CIDR. Set network.externalCIDRs, or set it to None.
	ReasonNoExternalAddresses = "NoExternalAddresses"
)

// ensurePools, a step of agree, ensures the AddressPools default and external, with the CIDRs of the settings and the
// ranges of the local cluster. An AddressPool without the label of the controllers belongs to an administrator, and
// is not changed.
func (r *Reconciler) ensurePools(ctx context.Context, p *pass) (*state, error) {
	// If two reconciles allocated an external CIDR at the same time, one of them would fail.
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

// ensureDefaultPool ensures AddressPool default, from which ranges for peers are allocated. The pool
// reserves the ranges of the local cluster and the external CIDRs, so that they are not allocated.
func (r *Reconciler) ensureDefaultPool(ctx context.Context, own netmap.Ranges, external []string) error {
	reserved, left := reserved(own, external)
	spec := v1alpha1.AddressPoolSpec{CIDRs: r.Settings.PoolCIDRs, Reserved: reserved}
	return r.ensurePool(ctx, v1alpha1.DefaultAddressPool, spec, left)
}

// ensurePool creates or updates an AddressPool, unless it belongs to an administrator. left is the
// number of ranges that do not fit into spec.reserved, for the event.
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
		// The pool exists, but is not in the cache yet, and may have another spec.
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

// recordUnreserved emits an event if left ranges do not fit into spec.reserved of AddressPool default.
func (r *Reconciler) recordUnreserved(pool *v1alpha1.AddressPool, left int) {
	if left > 0 && pool.Name == v1alpha1.DefaultAddressPool {
		r.Events.Eventf(pool, corev1.EventTypeWarning, ReasonTooManyRanges,
			"%d more ranges and addresses of this cluster are not reserved, and ranges of peers may be remapped to them: "+
				"set network.nodeCIDRs and network.podCIDRs in the values of the chart to CIDRs that contain them.", left)
	}
}

// reserved returns the ranges that must not be allocated for peers: the external CIDRs, and then the
// other ranges of the local cluster, the larger ones first, without ranges that another one contains.
// left is the number of ranges beyond validation.MaxReservedCIDRs, which cidrs does not contain.
func reserved(own netmap.Ranges, external []string) (cidrs []string, left int) {
	all := slices.Concat(own.Pods, own.Services, own.Nodes, own.External, own.Reserved)
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	kept := netmap.ParseCIDRs(external)
	for _, cidr := range all {
		if !netmap.Covers(kept, cidr) {
			kept = append(kept, cidr)
		}
	}
	return texts(kept[:min(len(kept), validation.MaxReservedCIDRs)]), max(len(kept)-validation.MaxReservedCIDRs, 0)
}

// texts returns CIDRs in text form.
func texts(cidrs []netip.Prefix) []string {
	var all []string
	for _, cidr := range cidrs {
		all = append(all, cidr.String())
	}
	return all
}
