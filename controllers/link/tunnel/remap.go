// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// exhaustedRetry is the time between two attempts to allocate a range from a pool without free ranges.
// A retry is needed because not every release of a range triggers a reconcile.
const exhaustedRetry = time.Minute

// attempt is a failed attempt to allocate ranges for a peer, or an external CIDR.
type attempt struct {
	// of is the UIDs and generations of the peer's NetworkConfigs; unused for an external CIDR.
	of string
	// until is the time before which the attempt is not repeated.
	until time.Time
	// failed is the state to report until then; unused for an external CIDR.
	failed *state
}

// ensureMappings, a step of agree, ensures an AddressMapping for each range of the peer. If the pool has no free
// range for one of them, it deletes the AddressMappings that the tunnel does not use. It does not repeat a failed
// attempt before exhaustedRetry, because the creation and deletion of AddressMappings would trigger the next
// reconcile at once.
func (r *Reconciler) ensureMappings(ctx context.Context, p *pass) (*state, error) {
	var of strings.Builder
	for _, config := range p.remote {
		fmt.Fprint(&of, config.UID, " ", config.Generation, " ")
	}
	now := r.Clock.Now()
	if last, ok := r.remapAttempts.Load(p.fc.Name); ok {
		if last := last.(attempt); last.of == of.String() && now.Before(last.until) {
			p.after = last.until.Sub(now)
			return last.failed, r.releaseUnused(ctx, p)
		}
	}
	failed, err := r.remap(ctx, p)
	if failed == nil {
		r.remapAttempts.Delete(p.fc.Name)
	} else {
		r.remapAttempts.Store(p.fc.Name, attempt{of.String(), now.Add(exhaustedRetry), failed})
	}
	return failed, err
}

func (r *Reconciler) remap(ctx context.Context, p *pass) (*state, error) {
	p.remapped = map[string]string{}
	for _, config := range p.remote {
		for _, cidr := range p.commonRanges(&config.Spec) {
			if p.remapped[cidr] != "" {
				continue
			}
			mapping, err := r.ensureMapping(ctx, p.fc, cidr)
			if apierrors.HasStatusCause(err, v1alpha1.CauseAddressesExhausted) {
				return r.refuseExhausted(ctx, p, config, err)
			}
			if err != nil {
				return nil, fmt.Errorf("remapping %s of cluster %s: %w", cidr, p.fc.Name, err)
			}
			p.remapped[cidr] = mapping.Spec.Mapped
		}
	}
	return nil, nil
}

// ensureMapping returns the AddressMapping of a range of a peer. If there is none, it creates one, which fails with the
// cause CauseAddressesExhausted if the pool has no free range. A new AddressMapping remaps the range even if it is
// free, unless it is within the CIDRs of the peer that are used unchanged.
func (r *Reconciler) ensureMapping(
	ctx context.Context, fc *v1alpha1.ForeignCluster, cidr string,
) (*v1alpha1.AddressMapping, error) {
	mapping := &v1alpha1.AddressMapping{}
	name := mappingName(fc, cidr)
	err := r.installation.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, mapping)
	if apierrors.IsNotFound(err) {
		mapping = &v1alpha1.AddressMapping{ObjectMeta: managed(fc, r.Namespace, name)}
		mapping.Spec = v1alpha1.AddressMappingSpec{
			ClusterID: fc.Spec.ClusterID, Pool: v1alpha1.DefaultAddressPool, CIDR: cidr,
			Remap: !within(trust.KeepCIDRs(fc, r.Settings.KeepCIDRs), cidr),
		}
		err = r.Client.Create(ctx, mapping)
	}
	return mapping, err
}

// mappingName returns the name of the AddressMapping of a range of a peer.
func mappingName(fc *v1alpha1.ForeignCluster, cidr string) string {
	sum := sha256.Sum256([]byte(fc.Spec.ClusterID + " " + cidr))
	return fc.Name + "-" + hex.EncodeToString(sum[:5])
}

// refuseExhausted deletes the AddressMappings of a failed attempt, and refuses the peer's NetworkConfig
// because the pool has no free range. cause is the error of the failed allocation.
func (r *Reconciler) refuseExhausted(
	ctx context.Context, p *pass, config *v1alpha1.NetworkConfig, cause error,
) (*state, error) {
	p.after = exhaustedRetry
	if err := r.releaseUnused(ctx, p); err != nil {
		return nil, err
	}
	const why = "the cluster that reads the NetworkConfig has no free range to which it could remap the CIDRs in it"
	if err := r.answer(ctx, config, nil, ReasonAddressesExhausted, why); err != nil {
		return nil, err
	}
	return blocked(ReasonAddressesExhausted, "AddressPool %s has no free range to remap the ranges of the peer to: %s",
		v1alpha1.DefaultAddressPool, remote.Text(cause.Error())), nil
}

// releaseUnused deletes the AddressMappings of a peer's ranges, except those that the peer's tunnel uses. It
// deletes only AddressMappings that are in the cache already.
func (r *Reconciler) releaseUnused(ctx context.Context, p *pass) error {
	used := map[string]string{}
	if p.tunnel != nil {
		for _, mapping := range p.tunnel.Spec.Remote {
			used[mapping.CIDR] = mapping.Mapped
		}
	}
	return r.deleteMappings(ctx, p.fc.Name, used)
}

// deleteMappings deletes the AddressMappings of the ranges of a peer, except those in the map except, which has
// the range as key and the mapped range as value. It does not delete AddressMappings of single addresses, which
// package link/addresses manages.
func (r *Reconciler) deleteMappings(ctx context.Context, foreignCluster string, except map[string]string) error {
	var list v1alpha1.AddressMappingList
	ofPeer := client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: foreignCluster,
	}
	err := r.installation.List(ctx, &list, client.InNamespace(r.Namespace), ofPeer, client.UnsafeDisableDeepCopy)
	if err != nil {
		return err
	}
	for i := range list.Items {
		mapping := &list.Items[i]
		if mapping.DeletionTimestamp != nil || mapping.Labels[v1alpha1.LabelOrigin] != "" ||
			except[mapping.Spec.CIDR] == mapping.Spec.Mapped {
			continue
		}
		if err := kit.Delete(ctx, r.Client, mapping); err != nil {
			return err
		}
	}
	return nil
}
