// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// A failed reconcile is retried after minDelay. The delay doubles with each failure, up to maxDelay.
	minDelay = 50 * time.Millisecond
	maxDelay = 30 * time.Second
	// conflictDelay is the delay of a retry after a conflict. Within this time, caches usually receive the change of the
	// other client.
	conflictDelay = 100 * time.Millisecond
	// createDelay is the delay of a retry after a create failed with AlreadyExists. Within this time, caches usually
	// receive the object.
	createDelay = time.Second
)

// PeerWorkers is the number of workers of a controller with requests to peers. A peer that does not respond occupies at
// most remote.SharedLimits.Calls of them.
const PeerWorkers = 32

// Options returns controller options with this number of workers, and retries after minDelay to maxDelay. Reconciles
// have no timeout, because a watch that a reconcile starts ends with the context of the reconcile. Package remote
// limits the duration of each call to a peer.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay),
	}
}

// Result returns the result of a reconcile. Without an error, the request is requeued after the given time, and not at
// all if that is zero. A conflict is no error: it is retried after conflictDelay.
func Result(after time.Duration, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// CreateResult is Result for a reconcile that creates objects. AlreadyExists is no error: the cache did not have the
// object yet, and the reconcile is retried after createDelay.
func CreateResult(after time.Duration, err error) (ctrl.Result, error) {
	if apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: createDelay}, nil
	}
	return Result(after, err)
}

// Settled is Result for a reconcile whose steps return a result instead of a time.
func Settled(result ctrl.Result, err error) (ctrl.Result, error) {
	return Result(result.RequeueAfter, err)
}
