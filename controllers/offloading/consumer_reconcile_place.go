// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
)

// pods are those of the namespace that have a node, if it matters where they are,
// and whether they are known yet.
func (c *Consumer) pods(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) ([]*corev1.Pod, bool, error) {
	if placement.PlacesAnywhere(&offloading.Spec) {
		c.forgetPods(offloading.Namespace)
		return nil, true, nil
	}
	return c.watchPods(ctx, offloading.Namespace)
}

// misplaced finds the pods that run where the spec no longer lets them, by
// name: none, where its selector cannot be read.
func (a surroundings) misplaced(pods []*corev1.Pod) []leaver {
	if a.selectorErr != nil {
		return nil
	}
	var all []leaver
	for _, pod := range pods {
		if why := a.placement.Misplaced(pod); why != "" {
			all = append(all, leaver{pod, "Misplaced", why})
		}
	}
	slices.SortFunc(all, func(a, b leaver) int { return compare(a.Name, b.Name) })
	return all
}

const (
	// Pods that wait for a node are looked for so often, and for so long after a
	// spec was seen for the first time, also by a controller that begins. Meanwhile
	// pods are still made by the one before: kube-apiserver learns of a new one as
	// everybody does.
	strandedEvery = 10 * time.Second
	strandedTime  = time.Minute
	// strandedPause is how soon, after none was found, it is looked again, however
	// much changes: an application that comes has many pods without a node.
	strandedPause = time.Second
)

// seenSpec is a spec that the controller has seen, and when it did so first.
type seenSpec struct {
	uid        types.UID
	generation int64
	seen       time.Time
	// none is when no pod was found last.
	none time.Time
	// warned tells whether pods were found then that are left to their owner.
	warned bool
}

// stranded finds the pods that wait for a node by what spec said before, and says
// when to look again: less often, and for as long as there are some, where they
// are left to the owner of the namespace. Nobody watches pods without a node.
func (c *Consumer) stranded(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, around surroundings) ([]leaver, time.Duration, error) {
	if around.selectorErr != nil {
		return nil, 0, nil
	}
	now := c.clock.Now()
	current := seenSpec{uid: offloading.UID, generation: offloading.Generation, seen: now}
	if known, ok := c.specs.Load(offloading.Namespace); ok && known.(seenSpec).uid == current.uid && known.(seenSpec).generation == current.generation {
		current = known.(seenSpec)
	}
	again := strandedEvery
	if now.Sub(current.seen) > strandedTime {
		if again = strandedTime; !current.warned {
			return nil, 0, nil
		}
	}
	if pause := strandedPause - now.Sub(current.none); pause > 0 {
		return nil, pause, nil
	}
	pods, err := c.kube.CoreV1().Pods(offloading.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods of namespace %s that wait for a node: %w", offloading.Namespace, err)
	}
	var all []leaver
	for i := range pods.Items {
		if why := around.placement.Stranded(&pods.Items[i]); why != "" {
			all = append(all, leaver{&pods.Items[i], "Misplaced", why})
		}
	}
	current.warned = len(all) > 0 && offloading.Spec.Enforcement != v1alpha1.Evict
	if current.none = (time.Time{}); len(all) == 0 {
		current.none = now
	}
	c.specs.Store(offloading.Namespace, current)
	return all, again, nil
}

// inPlace is the condition PodsInPlace of a namespace with these misplaced
// pods and so many stranded ones, unless selectorErr says why they are not known.
// Stranded pods that are evicted are gone in a moment.
func (c *Consumer) inPlace(offloading *v1alpha1.NamespaceOffloading, misplaced []leaver, stranded int, selectorErr error) *metav1.Condition {
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionPodsInPlace, Status: metav1.ConditionFalse,
		ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	}
	switch {
	case selectorErr != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, "InvalidSelector", selectorErr.Error()
	case offloading.Spec.Enforcement != v1alpha1.Evict && stranded > 0:
		condition.Reason = "Misplaced"
		condition.Message = fmt.Sprintf("%d pod(s) run where spec no longer lets them, and %d wait for nodes by what it said before: restart them (kubectl rollout restart), or set spec.enforcement to Evict.", len(misplaced), stranded)
	case len(misplaced) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, "InPlace"
	case offloading.Spec.Enforcement != v1alpha1.Evict:
		condition.Reason = "Misplaced"
		condition.Message = fmt.Sprintf("%d pod(s) run where spec no longer lets them: restart them (kubectl rollout restart), or set spec.enforcement to Evict.", len(misplaced))
	case blocked(misplaced, c.evictions) > 0:
		condition.Reason = "EvictionBlocked"
		condition.Message = fmt.Sprintf("%d pod(s) run where spec no longer lets them; not all of them can be evicted now: see the events of this object.", len(misplaced))
	default:
		condition.Reason = "Evicting"
		condition.Message = fmt.Sprintf("%d pod(s) run where spec no longer lets them, and are being evicted.", len(misplaced))
	}
	return condition
}

// evictMisplaced evicts misplaced pods, if the owner of the namespace wants
// that, and says when to look again.
func (c *Consumer) evictMisplaced(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, misplaced []leaver) time.Duration {
	if offloading.Spec.Enforcement != v1alpha1.Evict {
		c.evictions.GC()
		return 0
	}
	return c.evictAll(ctx, offloading, misplaced, c.evictions)
}
