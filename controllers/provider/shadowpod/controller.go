// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "shadow-pod"

const (
	// workers is the number of ShadowPods that are reconciled in parallel. A worker spends most of its time
	// waiting for the API server.
	workers = 16
	// minBackoff and maxBackoff are the limits of the delay before a refused creation or update of a pod is tried
	// again, and before a pod that its kubelet ended is replaced.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// maxEvictionDelay is the maximum delay before a refused eviction is requested again.
	maxEvictionDelay = 30 * time.Second
	// abandoned is the maximum time to wait for the end of a pod that was force deleted.
	abandoned = time.Minute
	// unread is the maximum time for which a deleted ShadowPod whose status records the end of its pod is
	// kept, if the consumer does not confirm that it has read the status.
	unread = time.Minute
)

// Reconciler creates, updates and deletes the pods of ShadowPods.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Placer selects the nodes on which new pods may run.
	Placer Placer
	// Events receives events of ShadowPods.
	Events record.EventRecorder
	Clock  clock.PassiveClock

	// pods reads a cache of the pods that were created for ShadowPods.
	pods    client.Reader
	backoff *flowcontrol.Backoff
	// evictions is the back-off of evictions that were requested.
	evictions *flowcontrol.Backoff
	created   *kit.Expectations
}

// SetupWithManager adds the controller to a manager, with a cache of its own for the pods of ShadowPods.
// The cache of the manager lacks fields that this controller needs, for example allocated resources.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	labelled, err := labels.NewRequirement(v1alpha1.LabelOrigin, selection.Exists, nil)
	if err != nil {
		return err
	}
	pods, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: labels.NewSelector().Add(*labelled), Transform: trim},
	})
	if err != nil {
		return err
	}
	_, err = manager.GetCache().GetInformer(context.Background(), &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("caching namespaces: %w", err)
	}
	r.pods, r.created = pods, kit.NewExpectations(r.Clock)
	r.backoff = flowcontrol.NewBackOff(minBackoff, maxBackoff)
	r.evictions = flowcontrol.NewBackOff(minBackoff, maxEvictionDelay)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ShadowPod{}).
		Watches(&v1alpha1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfConsumer),
			builder.WithPredicates(kit.Changed(limitsChanged))).
		WatchesRawSource(source.Kind[client.Object](pods, &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.observePod),
			kit.Changed(lifeChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// observePod maps a pod to the ShadowPod with the same name.
func (r *Reconciler) observePod(_ context.Context, pod client.Object) []reconcile.Request {
	r.created.Observe(pod)
	return []reconcile.Request{kit.Request(pod.GetNamespace(), pod.GetName())}
}

// requestsOfConsumer maps a ForeignCluster to the unfinished ShadowPods of this consumer.
func (r *Reconciler) requestsOfConsumer(ctx context.Context, cluster client.Object) []reconcile.Request {
	var shadows v1alpha1.ShadowPodList
	// Listing from a cache fails only before the cache is synced, which enqueues every object anyway.
	_ = r.Client.List(ctx, &shadows, client.UnsafeDisableDeepCopy)
	var requests []reconcile.Request
	for i := range shadows.Items {
		shadow := &shadows.Items[i]
		if shadow.Status.ForeignCluster == cluster.GetName() && shadow.Status.Phase == "" {
			requests = append(requests, kit.Request(shadow.Namespace, shadow.Name))
		}
	}
	return requests
}

// limitsChanged reports whether the limits for pods of a consumer changed, or what happens to refused pods.
func limitsChanged(old, current *v1alpha1.ForeignCluster) bool {
	return old.Spec.Trust != current.Spec.Trust ||
		old.Spec.IncomingPolicy.RefusedPods != current.Spec.IncomingPolicy.RefusedPods ||
		!equality.Semantic.DeepEqual(old.Spec.IncomingPolicy.Pods, current.Spec.IncomingPolicy.Pods)
}

// lifeChanged reports whether a pod finished, was updated from its ShadowPod, or was resized by its kubelet, or
// whether its deletion, its grace period or the number of its finalizers changed.
func lifeChanged(old, current *corev1.Pod) bool {
	return podspec.Finished(old) != podspec.Finished(current) ||
		kit.DeletionBegan(old, current) ||
		ptr.Deref(old.DeletionGracePeriodSeconds, 0) != ptr.Deref(current.DeletionGracePeriodSeconds, 0) ||
		len(old.Finalizers) != len(current.Finalizers) ||
		old.Annotations[annotationMirrored] != current.Annotations[annotationMirrored] ||
		(old.Status.AllocatedResources == nil) != (current.Status.AllocatedResources == nil)
}
