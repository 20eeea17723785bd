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

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
)

const (
	// Pods of one owner are likely to have one PodDisruptionBudget: when it holds
	// one of them back, none of them is tried again for a while, which doubles
	// from minEvictionDelay to maxEvictionDelay.
	minEvictionDelay = time.Second
	maxEvictionDelay = 30 * time.Second
	// maxEvictions is how many pods of a namespace are evicted in one pass, and
	// evictionsTimeout how long that may take: a client waits where it is told
	// to, and namespaces of others wait with it.
	maxEvictions     = 50
	evictionsTimeout = 5 * time.Second
	// minEvictionAge is how old a pod is at least that is evicted. Who makes pods
	// for a node where they may not run makes no faster loop than this.
	minEvictionAge = 5 * time.Second
)

// misplacedPod is a pod that runs where it may not, and why it may not.
type misplacedPod struct {
	*corev1.Pod
	why string
}

// pods are those of the namespace, if it matters where they are, and whether
// they are known yet.
func (c *Consumer) pods(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) ([]*corev1.Pod, bool, error) {
	if rules.PlacesAnywhere(&offloading.Spec) {
		c.forgetPods(offloading.Namespace)
		return nil, true, nil
	}
	return c.watchPods(ctx, offloading.Namespace)
}

// misplaced finds the pods that run where the spec no longer lets them, by
// name: none, where its selector cannot be read.
func (a surroundings) misplaced(pods []*corev1.Pod) []misplacedPod {
	if a.selectorErr != nil {
		return nil
	}
	var all []misplacedPod
	for _, pod := range pods {
		if why := a.placement.Misplaced(pod); why != "" {
			all = append(all, misplacedPod{pod, why})
		}
	}
	slices.SortFunc(all, func(a, b misplacedPod) int { return compare(a.Name, b.Name) })
	return all
}

// inPlace is the condition PodsInPlace of a namespace with these misplaced
// pods, unless selectorErr says why they are not known.
func (c *Consumer) inPlace(offloading *v1alpha1.NamespaceOffloading, misplaced []misplacedPod, selectorErr error) *metav1.Condition {
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionPodsInPlace, Status: metav1.ConditionFalse,
		ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	}
	held := slices.ContainsFunc(misplaced, func(pod misplacedPod) bool { return c.evictions.Get(ownerOf(pod.Pod)) > 0 })
	switch {
	case selectorErr != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, "InvalidSelector", selectorErr.Error()
	case len(misplaced) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, "InPlace"
	case offloading.Spec.Enforcement != v1alpha1.Evict:
		condition.Reason = "Misplaced"
		condition.Message = fmt.Sprintf("%d pod(s) run where spec no longer lets them: restart them (kubectl rollout restart), or set spec.enforcement to Evict.", len(misplaced))
	case held:
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
func (c *Consumer) evictMisplaced(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, misplaced []misplacedPod) time.Duration {
	c.evictions.GC()
	if offloading.Spec.Enforcement != v1alpha1.Evict {
		return 0
	}
	var again time.Duration
	later := func(after time.Duration) {
		if again == 0 || after < again {
			again = after
		}
	}
	ctx, cancel := context.WithTimeout(ctx, evictionsTimeout)
	defer cancel()
	now, tried := c.clock.Now(), 0
	for _, pod := range misplaced {
		owner, age := ownerOf(pod.Pod), now.Sub(pod.CreationTimestamp.Time)
		switch {
		case age < minEvictionAge:
			later(minEvictionAge - age)
		case c.evictions.IsInBackOffSinceUpdate(owner, now):
			later(c.evictions.Get(owner))
		case tried == maxEvictions, ctx.Err() != nil:
			later(pollInterval)
		default:
			tried++
			if !c.evict(ctx, offloading, pod) {
				c.evictions.Next(owner, now)
				later(c.evictions.Get(owner))
			} else {
				c.evictions.DeleteEntry(owner)
			}
		}
	}
	return again
}

// evict asks for the end of a pod, and tells whether it was granted. Its
// deletion, when it is seen, is an event.
func (c *Consumer) evict(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, pod misplacedPod) bool {
	err := c.evictPod(ctx, pod.Pod)
	switch {
	case err == nil:
		c.events.Eventf(pod.Pod, corev1.EventTypeNormal, "Misplaced", "Evicted from node %s: %s", pod.Spec.NodeName, pod.why)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It is gone, or another one of that name is there.
	case apierrors.IsTooManyRequests(err):
		c.events.Eventf(offloading, corev1.EventTypeWarning, "EvictionBlocked", "Pod %s stays on node %s for now: %s", pod.Name, pod.Spec.NodeName, refusal(err))
		return false
	default:
		c.events.Eventf(offloading, corev1.EventTypeWarning, "EvictionFailed", "Pod %s stays on node %s: %s", pod.Name, pod.Spec.NodeName, refusal(err))
		return false
	}
	return true
}

// refusal is an error with its causes, of which one names the
// PodDisruptionBudget.
func refusal(err error) string {
	said := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			said += " " + cause.Message + "."
		}
	}
	return said
}

// ownerOf tells pods apart by who makes them anew; one that nobody does stands
// for itself.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return string(owner.UID)
	}
	return string(pod.UID)
}
