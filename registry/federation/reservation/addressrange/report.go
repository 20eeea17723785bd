// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addressrange

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

// reportInterval is the time between two updates of the status of all AddressPools.
const reportInterval = time.Second

// Report updates the status of the AddressPools until ctx is done. Several servers may do so concurrently: they compute
// the same status, and do not write an unchanged one.
func (a *Addresses) Report(ctx context.Context, pools rest.Lister, status *store.StatusREST) {
	if a.WaitForObjects(ctx) != nil {
		return
	}
	ctx = genericapirequest.WithNamespace(ctx, metav1.NamespaceNone)
	var seen string
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// The list comes from the watch cache: no request reaches etcd while nothing changes.
		listed, err := pools.List(ctx, &internalversion.ListOptions{ResourceVersion: "0"})
		if err == nil {
			err = a.report(ctx, listed, status, &seen)
		}
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Unable to update the status of address pools, will retry")
		}
	}, reportInterval)
}

func (a *Addresses) report(ctx context.Context, listed runtime.Object, status *store.StatusREST, seen *string) error {
	pools, ok := listed.(*federation.AddressPoolList)
	if !ok {
		return fmt.Errorf("listing address pools: expected an AddressPoolList, got a %T", listed)
	}
	used, revision := a.Used(Account)
	now := fmt.Sprint(revision)
	for i := range pools.Items {
		now += fmt.Sprintf(" %s %s", pools.Items[i].UID, pools.Items[i].ResourceVersion)
	}
	if now == *seen {
		return nil
	}
	for i := range pools.Items {
		if err := write(ctx, &pools.Items[i], used, status); err != nil {
			return fmt.Errorf("writing the status of AddressPool %s: %w", pools.Items[i].Name, err)
		}
	}
	*seen = now
	return nil
}

func write(ctx context.Context, pool *federation.AddressPool, used sum, status *store.StatusREST) error {
	desired, err := statusOf(pool, used)
	if err != nil || apiequality.Semantic.DeepEqual(desired, pool.Status) {
		return err
	}
	_, _, err = status.Update(ctx, pool.Name, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*federation.AddressPool)
			var err error
			changed.Status, err = statusOf(changed, used)
			return changed, err
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// statusOf returns the status of a pool. used has the ranges of all mappings, including those of other pools.
func statusOf(pool *federation.AddressPool, used sum) (federation.AddressPoolStatus, error) {
	status := federation.AddressPoolStatus{ObservedGeneration: pool.Generation, Mappings: used.mappings[pool.Name]}
	reserved, err := prefixes(pool.Spec.Reserved)
	if err != nil {
		return status, err
	}
	occupied := used.set
	for _, prefix := range reserved {
		occupied = occupied.With(prefix)
	}
	for _, text := range pool.Spec.CIDRs {
		cidr, err := Prefix(text)
		if err != nil {
			return status, err
		}
		status.CIDRs = append(status.CIDRs, cidrStatus(cidr, occupied))
	}
	return status, nil
}

func cidrStatus(cidr netip.Prefix, occupied addresses.Set) federation.AddressPoolCIDRStatus {
	status := federation.AddressPoolCIDRStatus{CIDR: cidr.String(), UsedPercent: 100}
	if largest, ok := occupied.LargestFree(cidr); ok {
		status.LargestFree = largest.String()
		status.UsedPercent = min(int32(100*occupied.Share(cidr)), 99)
	}
	return status
}
