// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/metrics"
)

// withoutShadow records an event on a claim whose ShadowVolumeClaim does not exist, for example after a restore of the
// federation's store. The claim is never deleted. If the consumer creates the ShadowVolumeClaim again, the new
// ShadowVolumeClaim uses the claim.
func (r *Reconciler) withoutShadow(ctx context.Context, key types.NamespacedName) error {
	r.vanished.forget(key)
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, key, claim)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading claim %s: %w", key, err)
	}
	if err != nil || !isShadowClaim(claim) {
		r.orphans.forget(key)
		return nil
	}
	if r.orphans.add(key, claim.Labels[v1alpha1.LabelForeignCluster]) {
		r.Events.Eventf(claim, corev1.EventTypeWarning, v1alpha1.ReasonShadowVolumeClaimMissing,
			"The claim has no ShadowVolumeClaim, and is kept until the consumer creates the ShadowVolumeClaim again: "+
				"delete the claim if that does not happen.")
	}
	return nil
}

// orphans has the claims without a ShadowVolumeClaim, and the name of the consumer's ForeignCluster for each. It
// updates the metric of their number.
type orphans struct {
	mutex   sync.Mutex
	byClaim map[types.NamespacedName]string
}

// add adds a claim, and reports whether the claim was not known before.
func (o *orphans) add(claim types.NamespacedName, foreignCluster string) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if _, ok := o.byClaim[claim]; ok {
		return false
	}
	if o.byClaim == nil {
		o.byClaim = map[types.NamespacedName]string{}
	}
	o.byClaim[claim] = foreignCluster
	o.count(foreignCluster)
	return true
}

func (o *orphans) forget(claim types.NamespacedName) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	foreignCluster, ok := o.byClaim[claim]
	if !ok {
		return
	}
	delete(o.byClaim, claim)
	o.count(foreignCluster)
}

func (o *orphans) count(foreignCluster string) {
	count := 0
	for _, of := range o.byClaim {
		if of == foreignCluster {
			count++
		}
	}
	metrics.SetOrphanedClaims(foreignCluster, count)
}
