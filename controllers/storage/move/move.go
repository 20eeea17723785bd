// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move moves the data of a claim of a virtual StorageClass to another volume, when the spec of its
// VirtualVolume requests that. A move is a sequence of phases. Each phase is recorded in status.move before it starts,
// and can be repeated after any of its writes. Annotations of the source and the target volume make it possible to
// complete a move whose VirtualVolume was deleted.
//
// The claimRef of the source volume is the lock: a kubelet mounts a volume only for the claim in its claimRef.
package move

import (
	"context"
	"fmt"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Name is the name of the controller.
const Name = "volume-move"

const (
	// stepDelay is the time between two steps of which the second needs only the effect of the first, and the time after
	// which a failed reconcile is retried first.
	stepDelay = 50 * time.Millisecond
	// maxErrorDelay is the maximum time after which a failed reconcile is retried.
	maxErrorDelay = 5 * time.Second
)

// Peers returns the connections to providers.
type Peers interface {
	// Get returns the connection to a provider by the name of its ForeignCluster, and whether it is connected.
	Get(foreignCluster string) (*remote.Peer, bool)
}

// Reconciler runs the moves of virtual volumes.
type Reconciler struct {
	// Client writes to the API server and reads from the caches of the manager.
	Client client.Client
	// Live reads from the API server, because decisions about a move need the current state.
	Live client.Reader
	// Events records events about claims and virtual volumes.
	Events record.EventRecorder
	// Peers returns the connections to providers.
	Peers Peers
	// Logs returns the end of a mover's log. It may omit earlier lines; only the last report in the log is used.
	Logs func(ctx context.Context, pod types.NamespacedName) (string, error)
	// Mover selects the image of the movers.
	Mover Mover
	// Account and AccountNamespace are the name and the namespace of this process's ServiceAccount.
	Account, AccountNamespace string
	Clock                     clock.PassiveClock

	ends  ends
	waits waits
	// revoked has the namespaces in which revoke found that the RoleBinding does not exist.
	revoked sync.Map
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	options := kit.Options(kit.PeerWorkers)
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		stepDelay, maxErrorDelay)
	return builder.ControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.VirtualVolume{}).
		Watches(&corev1.Pod{}, r.ends.handler(r.Clock)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(marked)).
		WithOptions(options).
		Complete(r)
}

// marked returns a request for the virtual volume whose move set annotationMark of a PersistentVolume. With it, a move
// continues after a restart although its virtual volume was deleted.
func marked(_ context.Context, object client.Object) []reconcile.Request {
	claim, ok := ClaimOf(object)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: claim}}
}

// Reconcile runs the phases of one virtual volume's move until the move must wait or has ended.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	volume := &v1alpha1.VirtualVolume{}
	err := r.Client.Get(ctx, request.NamespacedName, volume)
	if err == nil && !idle(volume) {
		err = r.Live.Get(ctx, request.NamespacedName, volume)
	}
	switch {
	case apierrors.IsNotFound(err):
		show(request.NamespacedName, nil)
		return kit.Settled(r.abandon(ctx, request.NamespacedName))
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the virtual volume: %w", err)
	}
	if !volume.DeletionTimestamp.IsZero() {
		namespace, err := r.namespace(ctx, volume.Namespace)
		if err != nil {
			return ctrl.Result{}, err
		}
		if namespace == nil || !namespace.DeletionTimestamp.IsZero() {
			return kit.Settled(r.endWithNamespace(ctx, volume))
		}
	}
	m, err := r.begin(ctx, volume)
	if err != nil {
		return kit.Settled(ctrl.Result{}, err)
	}
	if m == nil {
		show(request.NamespacedName, nil)
		return kit.Settled(ctrl.Result{}, r.settle(ctx, volume))
	}
	return kit.Settled(m.run(ctx))
}

// idle reports whether a virtual volume has no move that is requested or running.
func idle(volume *v1alpha1.VirtualVolume) bool {
	requested, progress := volume.Spec.Move, volume.Status.Move
	return (progress == nil || ended(progress.Phase)) &&
		(requested == nil || progress != nil && progress.ID == requested.ID)
}
