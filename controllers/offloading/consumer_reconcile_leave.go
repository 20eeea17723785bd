// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/commit"
)

// leave brings a namespace home: first its pods, then its twins, and at last
// the label and the finalizer. Pods that are sent away meanwhile, by who has not
// heard of it yet, follow the others. Nothing but data on a cluster is waited for beyond the timeout.
func (c *Consumer) leave(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) (time.Duration, error) {
	around, err := c.surroundings(offloading)
	if err != nil {
		return 0, err
	}
	standings, err := c.standings(offloading, around, nil)
	if err != nil {
		return 0, err
	}
	late := c.late(offloading)
	away, err := c.podsAway(ctx, offloading.Namespace)
	if err != nil && !late {
		return 0, err
	}
	var home *metav1.Condition
	if !late {
		home = c.comingHome(offloading, away)
	}
	storing, released, err := c.releasing(ctx, offloading, standings)
	if err != nil {
		return 0, errors.Join(err, c.callHome(ctx, offloading, away))
	}
	changed, err := c.commitStatus(ctx, offloading, standings, v1alpha1.OffloadingTerminating, home, released)
	switch {
	case err != nil:
		// Where nothing can be written, nobody ends the pods in a better way.
		return 0, errors.Join(err, c.callHome(ctx, offloading, away))
	case changed:
		// What was written comes back as an event.
		return 0, nil
	}
	if err := c.callHome(ctx, offloading, away); err != nil && !late {
		return 0, err
	}
	if len(away) > 0 && !late {
		klog.FromContext(ctx).V(4).Info("Waiting for pods to come home", "pods", len(away))
		return pollInterval, nil
	}
	// No timeout gives data up.
	if len(storing) > 0 {
		return pollInterval, c.releaseVolumes(ctx, offloading, storing)
	}
	if err := c.removeEntries(ctx, offloading.Namespace); err != nil {
		return 0, err
	}
	if twins := slices.ContainsFunc(standings, func(s standing) bool { return s.left() != "" }); twins && !late {
		// Pods may still be placed there by what was known a moment ago.
		return min(pollInterval, c.remaining(offloading)), nil
	}
	if err := c.endReflection(ctx, offloading.Namespace); err != nil {
		return 0, err
	}
	if err := c.setLabel(ctx, offloading.Namespace, false); err != nil {
		return 0, err
	}
	if away, err = c.podsAway(ctx, offloading.Namespace); !late && (err != nil || len(away) > 0) {
		// Without the label no other ones follow them.
		return pollInterval, err
	}
	if err := c.release(ctx, offloading); err != nil {
		return 0, err
	}
	if late {
		c.tellLeftBehind(ctx, offloading, standings)
	}
	return 0, nil
}

// tellLeftBehind tells of each cluster that has not answered in time. Of a
// namespace that is being deleted there are no events.
func (c *Consumer) tellLeftBehind(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, standings []standing) {
	for _, s := range standings {
		if s.left() == "" {
			continue
		}
		klog.FromContext(ctx).Info("Left a namespace without an answer of the cluster", "namespace", offloading.Namespace,
			"cluster", s.cluster, "remoteNamespace", s.left(), "timeout", timeout)
		if !c.goes(offloading.Namespace) {
			c.events.Eventf(offloading, corev1.EventTypeWarning, "TwinLeftBehind", "%s has not removed namespace %s within %s: it does so when it is back, with what runs there",
				s.cluster, s.left(), timeout)
		}
	}
}

// goes tells whether a namespace is being deleted.
func (c *Consumer) goes(name string) bool {
	namespace, err := c.namespaces.Get(name)
	return err == nil && !namespace.DeletionTimestamp.IsZero()
}

// evictionDeadline is when pods are no longer evicted but deleted, so that there
// is time for them to end.
func (c *Consumer) evictionDeadline(offloading *v1alpha1.NamespaceOffloading) time.Time {
	return c.deadline(offloading).Add(evictionTime - timeout)
}

// deadline is when nothing is waited for any more.
func (c *Consumer) deadline(offloading *v1alpha1.NamespaceOffloading) time.Time {
	since := offloading.DeletionTimestamp
	if since.IsZero() {
		if namespace, err := c.namespaces.Get(offloading.Namespace); err == nil {
			since = namespace.DeletionTimestamp
		}
	}
	if since.IsZero() {
		return c.clock.Now()
	}
	return since.Add(timeout)
}

func (c *Consumer) late(offloading *v1alpha1.NamespaceOffloading) bool {
	return !c.clock.Now().Before(c.deadline(offloading))
}

func (c *Consumer) remaining(offloading *v1alpha1.NamespaceOffloading) time.Duration {
	return max(c.deadline(offloading).Sub(c.clock.Now()), time.Millisecond)
}

// podsAway are the pods of a namespace that are on virtual nodes, or that wait
// for one, by name. Finished pods have nowhere to go, and those of DaemonSets
// would be made again on the same node: they stay as they are. So do those of a
// move, which read and write volumes where these are, and end with the move.
func (c *Consumer) podsAway(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	virtual, err := c.virtualNodeNames()
	if err != nil {
		return nil, err
	}
	var away []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, moves := pod.Labels[volume.LabelMove]; moves {
			continue
		}
		if virtual[pod.Spec.NodeName] && !podspec.Finished(pod) && !podspec.BelongsToItsNode(pod) || placement.StrandedOnProviders(pod) {
			away = append(away, pod)
		}
	}
	slices.SortFunc(away, func(a, b *corev1.Pod) int { return compare(a.Name, b.Name) })
	return away, nil
}

// evicts tells whether a pod comes home by being evicted: whoever owns it makes
// another one, which placement keeps here. One that nobody makes again has
// nothing to wait for, and in a namespace that goes nobody makes any, nor does
// Kubernetes let one be evicted there.
func (c *Consumer) evicts(offloading *v1alpha1.NamespaceOffloading, pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && metav1.GetControllerOfNoCopy(pod) != nil && !c.goes(offloading.Namespace) &&
		c.clock.Now().Before(c.evictionDeadline(offloading))
}

// callHome has pods leave their virtual nodes: by eviction, so that
// PodDisruptionBudgets hold, or where that is of no use, or took too long, by
// deletion.
func (c *Consumer) callHome(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, away []*corev1.Pod) error {
	var failed []error
	for _, pod := range away {
		if c.evicts(offloading, pod) || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		err := c.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case err != nil:
			failed = append(failed, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err))
		case metav1.GetControllerOfNoCopy(pod) != nil && !c.goes(offloading.Namespace):
			c.events.Eventf(offloading, corev1.EventTypeWarning, "EvictionTimedOut", "Deleted pod %s %s: it could not be evicted within %s", pod.Name, from(pod), evictionTime)
		}
	}
	c.evictAll(ctx, offloading, c.leavers(offloading, away), c.homecomings)
	return errors.Join(failed...)
}

// leavers are those of the pods that come home by being evicted.
func (c *Consumer) leavers(offloading *v1alpha1.NamespaceOffloading, away []*corev1.Pod) []leaver {
	var all []leaver
	for _, pod := range away {
		if c.evicts(offloading, pod) {
			all = append(all, leaver{pod, "Unoffloaded", "the namespace comes home"})
		}
	}
	return all
}

// comingHome is the condition PodsInPlace of a namespace that is being left
// while these pods are still away. It counts only what is held up: the rest
// changes faster than it is worth to write down.
func (c *Consumer) comingHome(offloading *v1alpha1.NamespaceOffloading, away []*corev1.Pod) *metav1.Condition {
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionPodsInPlace, Status: metav1.ConditionFalse,
		ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	}
	leavers := c.leavers(offloading, away)
	until := c.evictionDeadline(offloading).UTC().Format(time.RFC3339)
	switch held := blocked(leavers, c.homecomings); {
	case len(away) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, "InPlace"
	case held > 0:
		condition.Reason = "EvictionBlocked"
		condition.Message = fmt.Sprintf("%d pod(s) on virtual nodes cannot be evicted now: see the events of this object. What is left of them at %s is deleted.", held, until)
	case len(leavers) > 0:
		condition.Reason = "Evicting"
		condition.Message = fmt.Sprintf("Pods on virtual nodes are being evicted, so that they come home. What is left of them at %s is deleted.", until)
	default:
		condition.Reason = "Ending"
		condition.Message = "Pods on virtual nodes are ending."
	}
	return condition
}

func (c *Consumer) virtualNodeNames() (map[string]bool, error) {
	names := map[string]bool{}
	virtualNodes, err := c.virtualNodes.List(everything)
	if err != nil {
		return nil, err
	}
	for _, virtualNode := range virtualNodes {
		names[virtualNode.Spec.NodeName] = names[virtualNode.Spec.NodeName] || naming.IsPeerNamespace(virtualNode.Namespace)
	}
	return names, nil
}

// removeEntries takes a namespace out of the maps of all clusters.
func (c *Consumer) removeEntries(ctx context.Context, namespace string) error {
	maps, err := c.maps.List(everything)
	if err != nil {
		return err
	}
	for _, current := range maps {
		wanted := slices.DeleteFunc(slices.Clone(current.Spec.Namespaces),
			func(entry v1alpha1.NamespaceMapping) bool { return entry.Name == namespace })
		if !c.ours(current) || len(wanted) == len(current.Spec.Namespaces) {
			continue
		}
		changed := current.DeepCopy()
		changed.Spec.Namespaces = wanted
		if _, err := commit.Commit(ctx, c.federation.FederationV1alpha1().NamespaceMaps(current.Namespace), current, changed); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// release lets the object go. While only its namespace is being deleted, that
// has to delete the object first.
func (c *Consumer) release(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) error {
	if offloading.DeletionTimestamp.IsZero() || !slices.Contains(offloading.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	changed := offloading.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(name string) bool { return name == v1alpha1.Finalizer })
	_, err := commit.Commit(ctx, c.federation.FederationV1alpha1().NamespaceOffloadings(offloading.Namespace), offloading, changed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
