// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// unoffload removes the pods of a namespace from virtual nodes, then its remote namespaces, and finally the label and
// the finalizer. It also removes pods that are placed on providers in the meantime, because admission observes the
// deletion with a delay. After timeout it waits only until data on providers is moved, retained or deleted, as
// spec.volumes.onUnoffload selects. It returns the time after which to reconcile again.
func (r *Reconciler) unoffload(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) (time.Duration, error) {
	options, err := r.optionsOf(ctx, offloading)
	if err != nil {
		return 0, err
	}
	states, err := r.states(ctx, offloading, options, nil)
	if err != nil {
		return 0, err
	}
	late := r.late(ctx, offloading)
	pods, err := r.podsOnProviders(ctx, offloading.Namespace)
	if err != nil && !late {
		return 0, err
	}
	var inPlace *metav1.Condition
	if !late {
		inPlace = r.removing(ctx, offloading, pods)
	}
	storing, released, err := r.releasing(ctx, offloading, states)
	if err != nil {
		return 0, errors.Join(err, r.removePods(ctx, offloading, pods))
	}
	changed, err := r.commitStatus(ctx, offloading, states, v1alpha1.OffloadingTerminating, inPlace, released)
	switch {
	case err != nil:
		// A failure to write the status does not prevent the removal of pods.
		return 0, errors.Join(err, r.removePods(ctx, offloading, pods))
	case changed:
		// The write of the status enqueues the namespace again.
		return 0, nil
	}
	if err := r.removePods(ctx, offloading, pods); err != nil && !late {
		return 0, err
	}
	if len(pods) > 0 && !late {
		klog.FromContext(ctx).V(4).Info("Waiting for pods to leave virtual nodes", "pods", len(pods))
		return pollInterval, nil
	}
	// Data on providers is kept even after the timeout.
	if len(storing) > 0 {
		return pollInterval, r.releaseVolumes(ctx, offloading, storing)
	}
	if err := r.removeEntries(ctx, offloading.Namespace); err != nil {
		return 0, err
	}
	if left := slices.ContainsFunc(states, func(s state) bool { return s.left() != "" }); left && !late {
		// The next reconcile also removes pods that a client with an outdated cache placed on the provider in the meantime.
		return min(pollInterval, r.remaining(ctx, offloading)), nil
	}
	if err := r.unbindReflection(ctx, offloading.Namespace); err != nil {
		return 0, err
	}
	if err := r.setLabel(ctx, offloading.Namespace, false); err != nil {
		return 0, err
	}
	if pods, err = r.podsOnProviders(ctx, offloading.Namespace); !late && (err != nil || len(pods) > 0) {
		// Without the label, no further pods are placed on providers.
		return pollInterval, err
	}
	if err := r.removeFinalizer(ctx, offloading); err != nil {
		return 0, err
	}
	if late {
		r.recordLeft(ctx, offloading, states)
	}
	return 0, nil
}

// recordLeft emits an event for each provider that still reports the remote namespace after the timeout. It emits none
// if the namespace is being deleted, because events cannot be created in it.
func (r *Reconciler) recordLeft(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, states []state) {
	for _, s := range states {
		if s.left() == "" {
			continue
		}
		klog.FromContext(ctx).Info("Unoffloaded a namespace whose remote namespace remains",
			"namespace", offloading.Namespace, "cluster", s.cluster, "remoteNamespace", s.left(), "timeout", timeout)
		if !r.isDeleted(ctx, offloading.Namespace) {
			r.Events.Eventf(offloading, corev1.EventTypeWarning, reasonRemoteNamespaceLeftBehind,
				"%s has not deleted namespace %s within %s: it is deleted with its pods once the cluster is reachable",
				s.cluster, s.left(), timeout)
		}
	}
}

// evictionDeadline returns the time after which pods are deleted instead of evicted, so that they can end before
// deadline.
func (r *Reconciler) evictionDeadline(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) time.Time {
	return r.deadline(ctx, offloading).Add(evictionTime - timeout)
}

// deadline returns the time after which unoffload waits only for data on providers.
func (r *Reconciler) deadline(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) time.Time {
	since := offloading.DeletionTimestamp
	if namespace := r.namespace(ctx, offloading.Namespace); since.IsZero() && namespace != nil {
		since = namespace.DeletionTimestamp
	}
	if since.IsZero() {
		return r.Clock.Now()
	}
	return since.Add(timeout)
}

func (r *Reconciler) late(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) bool {
	return !r.Clock.Now().Before(r.deadline(ctx, offloading))
}

func (r *Reconciler) remaining(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) time.Duration {
	return max(r.deadline(ctx, offloading).Sub(r.Clock.Now()), time.Millisecond)
}

// podsOnProviders returns the pods of a namespace that are on virtual nodes or wait for one, sorted by name. It omits
// finished pods, pods of DaemonSets, which would be created again on the same node, and pods that move volumes, which
// end by themselves.
func (r *Reconciler) podsOnProviders(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	virtual, err := r.virtualNodeNames(ctx)
	if err != nil {
		return nil, err
	}
	var all []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, moves := pod.Labels[volume.LabelMove]; moves {
			continue
		}
		if virtual[pod.Spec.NodeName] && !podspec.Finished(pod) && !podspec.BelongsToItsNode(pod) ||
			placement.MayStillBindToVirtualNode(pod) {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// evicts reports whether a pod is evicted, so that its controller replaces it on a local node. It returns false for a
// pod that is being deleted, and for a pod to delete at once: after evictionDeadline, if the pod has no controller, or
// if its namespace is being deleted, so that no pod can be created or evicted in it.
func (r *Reconciler) evicts(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && metav1.GetControllerOfNoCopy(pod) != nil &&
		!r.isDeleted(ctx, offloading.Namespace) &&
		r.Clock.Now().Before(r.evictionDeadline(ctx, offloading))
}

// removePods evicts pods, so that PodDisruptionBudgets are respected, or deletes them if evicts is false.
func (r *Reconciler) removePods(ctx context.Context, offloading *v1alpha1.NamespaceOffloading,
	pods []*corev1.Pod,
) error {
	var failed []error
	for _, pod := range pods {
		if r.evicts(ctx, offloading, pod) || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		// kit.Delete does not report whether it deleted the pod, which decides about the event.
		err := r.Client.Delete(ctx, pod, client.Preconditions{UID: ptr.To(pod.UID)})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// The pod was deleted or replaced.
		case err != nil:
			failed = append(failed, fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err))
		case metav1.GetControllerOfNoCopy(pod) != nil && !r.isDeleted(ctx, offloading.Namespace):
			r.Events.Eventf(offloading, corev1.EventTypeWarning, reasonEvictionTimedOut,
				"Deleted pod %s %s: it could not be evicted within %s", pod.Name, from(pod), evictionTime)
		}
	}
	r.evictAll(ctx, offloading, r.evictees(ctx, offloading, pods), r.unoffloaded)
	return errors.Join(failed...)
}

// evictees returns the pods for which evicts returns true.
func (r *Reconciler) evictees(ctx context.Context, offloading *v1alpha1.NamespaceOffloading,
	pods []*corev1.Pod,
) []evictee {
	var all []evictee
	for _, pod := range pods {
		if r.evicts(ctx, offloading, pod) {
			all = append(all, evictee{pod, reasonUnoffloaded, "the namespace is unoffloaded"})
		}
	}
	return all
}

// removing returns the condition PodsInPlace of a namespace that is being unoffloaded. pods are the remaining pods. The
// message counts only pods whose eviction was refused, because the other numbers change too often for a status.
func (r *Reconciler) removing(ctx context.Context, offloading *v1alpha1.NamespaceOffloading,
	pods []*corev1.Pod,
) *metav1.Condition {
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionPodsInPlace, Status: metav1.ConditionFalse,
		ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	}
	evictees := r.evictees(ctx, offloading, pods)
	until := r.evictionDeadline(ctx, offloading).UTC().Format(time.RFC3339)
	switch held := blocked(evictees, r.unoffloaded); {
	case len(pods) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonInPlace
	case held > 0:
		condition.Reason = reasonEvictionBlocked
		condition.Message = fmt.Sprintf(
			"%d pod(s) on virtual nodes cannot be evicted now: see the events of this object. "+
				"Pods that remain at %s are deleted.", held, until)
	case len(evictees) > 0:
		condition.Reason = reasonEvicting
		condition.Message = fmt.Sprintf(
			"Pods on virtual nodes are being evicted. Pods that remain at %s are deleted.", until)
	default:
		condition.Reason = reasonEnding
		condition.Message = "Pods on virtual nodes are ending."
	}
	return condition
}

// virtualNodeNames maps the names of the Nodes of all VirtualNodes to whether one of the VirtualNodes of the Node is in
// a peer namespace.
func (r *Reconciler) virtualNodeNames(ctx context.Context) (map[string]bool, error) {
	var virtualNodes v1alpha1.VirtualNodeList
	if err := r.Client.List(ctx, &virtualNodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing virtual nodes: %w", err)
	}
	names := map[string]bool{}
	for i := range virtualNodes.Items {
		name := virtualNodes.Items[i].Spec.NodeName
		names[name] = names[name] || naming.IsPeerNamespace(virtualNodes.Items[i].Namespace)
	}
	return names, nil
}

// removeEntries removes the entries of a namespace from the NamespaceMaps of all providers.
func (r *Reconciler) removeEntries(ctx context.Context, namespace string) error {
	var namespaceMaps v1alpha1.NamespaceMapList
	if err := r.Client.List(ctx, &namespaceMaps, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing namespace maps: %w", err)
	}
	for i := range namespaceMaps.Items {
		current := &namespaceMaps.Items[i]
		entries := slices.DeleteFunc(slices.Clone(current.Spec.Namespaces),
			func(entry v1alpha1.NamespaceMapping) bool { return entry.Name == namespace })
		if !r.consumerOf(current) || len(entries) == len(current.Spec.Namespaces) {
			continue
		}
		desired := current.DeepCopy()
		desired.Spec.Namespaces = entries
		if _, err := kit.Commit(ctx, r.Client, current, desired); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// removeFinalizer removes the finalizer if the NamespaceOffloading is being deleted. If only its namespace is being
// deleted, it does nothing, because the namespace controller deletes the NamespaceOffloading next.
func (r *Reconciler) removeFinalizer(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) error {
	if offloading.DeletionTimestamp.IsZero() {
		return nil
	}
	desired := offloading.DeepCopy()
	controllerutil.RemoveFinalizer(desired, v1alpha1.Finalizer)
	_, err := kit.Commit(ctx, r.Client, offloading, desired)
	return client.IgnoreNotFound(err)
}
