// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
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
	// workers create pods in parallel: each waits for the API most of the time.
	workers = 16
	// The delay before a pod that was refused or evicted is created again.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// cacheLag is the time until a pass that found the cache behind the API server is
	// repeated.
	cacheLag = 10 * time.Second
	// abandoned is how long the end of a pod that was deleted by force is waited for.
	abandoned = time.Minute
	// unread is how long a shadow pod with the end of its pod stays for a consumer that
	// does not confirm that it has read it.
	unread = time.Minute
)

// Reconciler runs the pods of ShadowPods.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Placer chooses the nodes of new pods.
	Placer Placer
	// Events receives events of ShadowPods.
	Events record.EventRecorder
	Clock  clock.PassiveClock

	// pods reads the cache of the pods of shadow pods.
	pods    client.Reader
	backoff *flowcontrol.Backoff
	created *kit.Expectations
}

// SetupWithManager adds the controller to a manager, with a cache of the pods of shadow
// pods. The cache of the manager has fewer fields of most pods, and none of resources that a kubelet
// has not resized yet.
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
	r.pods, r.backoff, r.created = pods, flowcontrol.NewBackOff(minBackoff, maxBackoff), kit.NewExpectations(r.Clock)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ShadowPod{}).
		WatchesRawSource(source.Kind[client.Object](pods, &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.observePod),
			kit.Changed(lifeChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// observePod returns the request of the shadow pod of the same name. A pod that was created
// is observed from then on.
func (r *Reconciler) observePod(_ context.Context, pod client.Object) []reconcile.Request {
	r.created.Observe(pod)
	return []reconcile.Request{kit.Request(pod.GetNamespace(), pod.GetName())}
}

// lifeChanged reports whether a pod began to end or ended, was changed after its shadow pod,
// or was resized by its kubelet.
func lifeChanged(old, current *corev1.Pod) bool {
	return podspec.Finished(old) != podspec.Finished(current) ||
		kit.DeletionBegan(old, current) ||
		ptr.Deref(old.DeletionGracePeriodSeconds, 0) != ptr.Deref(current.DeletionGracePeriodSeconds, 0) ||
		len(old.Finalizers) != len(current.Finalizers) ||
		old.Annotations[annotationMirrored] != current.Annotations[annotationMirrored] ||
		(old.Status.AllocatedResources == nil) != (current.Status.AllocatedResources == nil)
}
