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
	// The delay between two passes over one key that failed doubles from minDelay to
	// maxDelay, as with package queue.
	minDelay = 50 * time.Millisecond
	maxDelay = 30 * time.Second
	// conflictDelay is the usual time until a cache receives the change of another client.
	conflictDelay = 100 * time.Millisecond
)

// Options returns the options of a controller with a number of workers.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay),
	}
}

// Result returns the result of a pass: requeued after a time unless it is zero, and soon after a
// conflict with another client, which is no error.
func Result(after time.Duration, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}
