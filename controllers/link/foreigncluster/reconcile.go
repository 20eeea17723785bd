// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// Reconcile runs the steps of both directions for one ForeignCluster, and writes its status. If the
// ForeignCluster was deleted, it closes the connection to that cluster.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	fc := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, key.NamespacedName, fc)
	if apierrors.IsNotFound(err) {
		r.Peers.Remove(key.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return kit.Result(r.reconcile(ctx, fc))
}

func (r *Reconciler) reconcile(ctx context.Context, fc *v1alpha1.ForeignCluster) (time.Duration, error) {
	p := &Pass{
		ForeignCluster: fc.DeepCopy(), Now: r.Clock.Now(), Networking: r.Networking, Installation: r.Installation,
	}
	if fc.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(fc, v1alpha1.Finalizer) {
		enabled := kit.OutgoingEnabled(fc) || kit.IncomingEnabled(fc)
		if !enabled && fc.Status.ObservedGeneration == fc.Generation && r.policiesReported(fc) {
			return 0, nil
		}
		if enabled {
			controllerutil.AddFinalizer(p.ForeignCluster, v1alpha1.Finalizer)
			_, err := kit.Commit(ctx, r.Client, fc, p.ForeignCluster)
			return 0, err
		}
	}

	var after time.Duration
	var failures []error
	for _, steps := range [][]Step{r.Incoming, r.Outgoing} {
		again, err := run(ctx, p, steps)
		after = kit.Sooner(after, again)
		failures = append(failures, err)
	}
	failure := errors.Join(failures...)
	finish(fc, p, failure)
	changed, err := kit.Commit(ctx, r.Client, fc, p.ForeignCluster)
	if err == nil && changed {
		r.recordEvents(fc, p.ForeignCluster)
	}
	return after, errors.Join(failure, err)
}

// policiesReported reports whether status.policies has the policies that are in force.
func (r *Reconciler) policiesReported(fc *v1alpha1.ForeignCluster) bool {
	return slices.Equal(fc.Status.Policies, trust.Policies(fc, &r.Installation))
}

// finish completes the status after the steps, and removes the finalizer once both directions are
// torn down. One reconcile writes either the object or its status, so finish reverts the status if
// a step changed the spec or the metadata. failure is the error of the steps.
func finish(before *v1alpha1.ForeignCluster, p *Pass, failure error) {
	fc := p.ForeignCluster
	if equality.Semantic.DeepEqual(before.Spec, fc.Spec) && equality.Semantic.DeepEqual(before.ObjectMeta, fc.ObjectMeta) {
		summarize(p)
	} else {
		// The write of the new spec triggers the reconcile that writes the status.
		fc.Status = *before.Status.DeepCopy()
	}
	if failure == nil && tornDown(fc) && equality.Semantic.DeepEqual(before.Status, fc.Status) {
		controllerutil.RemoveFinalizer(fc, v1alpha1.Finalizer)
	}
}

// tornDown reports whether a ForeignCluster is being deleted and both its directions have ended.
func tornDown(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp != nil &&
		fc.Status.OutgoingPeering == v1alpha1.PeeringNone && fc.Status.IncomingPeering == v1alpha1.PeeringNone
}
