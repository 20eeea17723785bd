// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in the flag --controllers, in logs, metrics and events.
const Name = "shadow-volume-claim"

// workers is the number of ShadowVolumeClaims that are reconciled concurrently.
const workers = 4

// Reconciler creates, expands and deletes the claim of each ShadowVolumeClaim, and reports the claim's state in its
// status.
type Reconciler struct {
	// Client reads from the caches of the manager, and Live from the API server.
	Client client.Client
	Live   client.Reader
	// Events records events about ShadowVolumeClaims and claims.
	Events record.EventRecorder
	Clock  clock.PassiveClock

	vanished vanishedPods
	orphans  orphans
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	// Namespaces and Nodes are read from the cache, but their changes enqueue nothing.
	for _, kind := range []client.Object{&corev1.Namespace{}, &corev1.Node{}} {
		if _, err := manager.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ShadowVolumeClaim{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfClaim)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfVolume)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfClass)).
		Watches(&corev1.Pod{}, r.podHandler(), builder.WithPredicates(kit.Changed(podUseChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

func (r *Reconciler) requestsOfClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.requests(ctx, claim.GetNamespace(), claim.GetName())
}

func (r *Reconciler) requestsOfVolume(ctx context.Context, pv client.Object) []reconcile.Request {
	var all []reconcile.Request
	for _, claim := range kit.VolumeClaim(pv) {
		namespace, name, _ := strings.Cut(claim, "/")
		all = append(all, r.requests(ctx, namespace, name)...)
	}
	return all
}

// requestsOfClass returns requests for the ShadowVolumeClaims of a StorageClass, which may be created after them.
func (r *Reconciler) requestsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	var shadows v1alpha1.ShadowVolumeClaimList
	// Listing from a cache fails only before it is filled, and then every object is enqueued anyway.
	_ = r.Client.List(ctx, &shadows)
	var all []reconcile.Request
	for i := range shadows.Items {
		if shadow := &shadows.Items[i]; shadow.Spec.StorageClassName == class.GetName() {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shadow)})
		}
	}
	return all
}

// podHandler returns an event handler that enqueues the claims of each pod, and records pods that were deleted before
// they ended.
func (r *Reconciler) podHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, object client.Object, queue queue) {
		for _, claim := range kit.PodClaims(object) {
			for _, request := range r.requests(ctx, object.GetNamespace(), claim) {
				queue.Add(request)
			}
		}
	}
	vanished := func(ctx context.Context, object client.Object, missed time.Time) {
		if pod, ok := object.(*corev1.Pod); ok && r.inRemoteNamespace(ctx, pod.Namespace) {
			r.vanished.add(pod, r.bootOf(ctx, pod.Spec.NodeName), missed)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue queue) { add(ctx, e.Object, queue) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				// While the watch was interrupted, the pod was deleted, and another one created with its name.
				vanished(ctx, e.ObjectOld, r.Clock.Now())
				add(ctx, e.ObjectOld, queue)
			}
			add(ctx, e.ObjectNew, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue queue) {
			var missed time.Time
			if e.DeleteStateUnknown {
				missed = r.Clock.Now()
			}
			vanished(ctx, e.Object, missed)
			add(ctx, e.Object, queue)
		},
	}
}

// podUseChanged reports whether a pod began or ceased to use its claims.
func podUseChanged(old, current *corev1.Pod) bool {
	return podspec.Finished(old) != podspec.Finished(current) ||
		old.Labels[volume.LabelMove] != current.Labels[volume.LabelMove]
}

// requests returns a request for a claim in a remote namespace, and none in other namespaces.
func (r *Reconciler) requests(ctx context.Context, namespace, name string) []reconcile.Request {
	if !r.inRemoteNamespace(ctx, namespace) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

func (r *Reconciler) inRemoteNamespace(ctx context.Context, name string) bool {
	var namespace corev1.Namespace
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &namespace)
	return err == nil && isRemote(&namespace)
}

func isRemote(namespace *corev1.Namespace) bool {
	return namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleRemoteNamespace &&
		namespace.Labels[v1alpha1.LabelForeignCluster] != ""
}
