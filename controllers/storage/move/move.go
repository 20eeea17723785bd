// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move moves the data of a claim of the virtual storage class to another volume, as the
// spec of its VirtualVolume requests. A move is a sequence of phases. Each is recorded in
// status.move before it begins, and can be repeated after any of its writes. An annotation of the
// source and the target volume allows to finish a move without that record.
//
// The lock is the claimRef of the source volume: kubelets mount a volume only for the
// claim that it names.
package move

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// Name is the name of the controller.
const Name = "volume-move"

const (
	// conflictDelay is the time until a reconcile is retried after a conflict.
	conflictDelay = 50 * time.Millisecond
	// maxErrorDelay is the greatest time between two attempts of a write that fails.
	maxErrorDelay = 5 * time.Second
	// maxConcurrentMoves is the number of moves that are reconciled concurrently; each waits
	// most of the time.
	maxConcurrentMoves = 8
)

// Peers are the connections to the providers.
type Peers interface {
	// Get returns the connection to a foreign cluster, if there is one.
	Get(foreignCluster string) (*remote.Peer, bool)
}

// Config has the dependencies and settings of the controller.
type Config struct {
	// Client writes, and reads the caches of the manager.
	Client client.Client
	// Live reads from the API server, because decisions of a move need the current state.
	Live client.Reader
	// Events records events about claims and virtual volumes.
	Events record.EventRecorder
	// Peers are the connections to the providers.
	Peers Peers
	// Logs returns the end of the log of a mover.
	Logs func(ctx context.Context, pod types.NamespacedName) (string, error)
	// Image is the image of the movers, and PullPolicy its imagePullPolicy.
	Image      string
	PullPolicy corev1.PullPolicy
	// Account and AccountNamespace name the ServiceAccount of this process.
	Account, AccountNamespace string
	// Clock returns the time.
	Clock clock.PassiveClock
}

// Reconciler moves volumes.
type Reconciler struct {
	Config
	ends *ends
}

// New returns the controller.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, ends: newEnds(config.Clock)}
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return builder.ControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.VirtualVolume{}).
		Watches(&corev1.Pod{}, r.ends.handler()).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(marked)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentMoves,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				conflictDelay, maxErrorDelay),
		}).
		Complete(r)
}

// marked returns the virtual volume whose move marked a volume. When the process starts, it finds
// the moves whose virtual volume was deleted.
func marked(_ context.Context, object client.Object) []reconcile.Request {
	mark, ok := markOf(object)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: mark.Namespace, Name: mark.Claim}}}
}

// Reconcile continues the move of one virtual volume until it has to wait.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	volume := &v1alpha1.VirtualVolume{}
	err := r.Client.Get(ctx, request.NamespacedName, volume)
	if err == nil && !idle(volume) {
		err = r.Live.Get(ctx, request.NamespacedName, volume)
	}
	switch {
	case apierrors.IsNotFound(err):
		return settled(r.abandon(ctx, request.NamespacedName))
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the virtual volume: %w", err)
	}
	if !volume.DeletionTimestamp.IsZero() {
		namespace, err := r.namespace(ctx, volume.Namespace)
		if err != nil {
			return ctrl.Result{}, err
		}
		if namespace == nil || !namespace.DeletionTimestamp.IsZero() {
			return settled(r.endWithNamespace(ctx, volume))
		}
	}
	m, err := r.begin(ctx, volume)
	if err != nil {
		return settled(ctrl.Result{}, err)
	}
	if m == nil {
		return settled(ctrl.Result{}, r.settle(ctx, request.NamespacedName))
	}
	return settled(m.run(ctx))
}

// idle reports whether a virtual volume has no requested or running move.
func idle(volume *v1alpha1.VirtualVolume) bool {
	requested, progress := volume.Spec.Move, volume.Status.Move
	return (progress == nil || ended(progress.Phase)) &&
		(requested == nil || progress != nil && progress.ID == requested.ID)
}

// settled turns a conflict into a retry.
func settled(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return result, err
}
