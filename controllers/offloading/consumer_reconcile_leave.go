// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/controllers/commit"
)

// leave brings a namespace home: first its pods, then its twins, and at last
// the label and the finalizer. Nothing is waited for beyond the timeout.
func (c *Consumer) leave(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) (time.Duration, error) {
	around, err := c.surroundings(offloading)
	if err != nil {
		return 0, err
	}
	standings, err := c.standings(offloading, around, nil)
	if err != nil {
		return 0, err
	}
	if changed, err := c.commitStatus(ctx, offloading, standings, v1alpha1.OffloadingTerminating, nil); changed || err != nil {
		// What was written comes back as an event.
		return 0, err
	}
	late := c.late(offloading)
	away, err := c.callPodsHome(ctx, offloading.Namespace)
	if err != nil && !late {
		return 0, err
	}
	if away > 0 && !late {
		klog.FromContext(ctx).V(4).Info("Waiting for pods to come home", "pods", away)
		return pollInterval, nil
	}
	if err := c.removeEntries(ctx, offloading.Namespace); err != nil {
		return 0, err
	}
	if twins := slices.ContainsFunc(standings, func(s standing) bool { return s.answer != nil }); twins && !late {
		// The answer's disappearance wakes us up, or else the deadline does.
		return c.remaining(offloading), nil
	}
	if late {
		klog.FromContext(ctx).Info("Leaving without an answer of every cluster", "namespace", offloading.Namespace, "timeout", timeout)
	}
	if err := c.endReflection(ctx, offloading.Namespace); err != nil {
		return 0, err
	}
	if err := c.setLabel(ctx, offloading.Namespace, false); err != nil {
		return 0, err
	}
	return 0, c.release(ctx, offloading)
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

// callPodsHome deletes the unfinished pods of a namespace that are on virtual
// nodes, and counts them: whoever owns them makes new ones, which placement
// keeps here. Finished pods have nowhere to go and stay as they are.
func (c *Consumer) callPodsHome(ctx context.Context, namespace string) (int, error) {
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	virtual, err := c.virtualNodeNames()
	if err != nil {
		return 0, err
	}
	away := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !virtual[pod.Spec.NodeName] || rules.Finished(pod) {
			continue
		}
		away++
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		err := c.kube.CoreV1().Pods(namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return away, fmt.Errorf("delete pod %s/%s: %w", namespace, pod.Name, err)
		}
	}
	return away, nil
}

func (c *Consumer) virtualNodeNames() (map[string]bool, error) {
	names := map[string]bool{}
	virtualNodes, err := c.virtualNodes.List(everything)
	if err != nil {
		return nil, err
	}
	for _, virtualNode := range virtualNodes {
		names[virtualNode.Spec.NodeName] = names[virtualNode.Spec.NodeName] || rules.IsPeerNamespace(virtualNode.Namespace)
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
