// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// Pods of one owner are likely to have one PodDisruptionBudget: when it holds
	// one of them back, none of them is tried again for a while, which doubles
	// from minEvictionDelay to maxEvictionDelay, or to maxHomecomingDelay where
	// the time is limited.
	minEvictionDelay   = time.Second
	maxEvictionDelay   = 30 * time.Second
	maxHomecomingDelay = 4 * time.Second
	// maxEvictions is how many pods of a namespace are evicted in one pass, and
	// evictionsTimeout how long that may take: a client waits where it is told
	// to, and namespaces of others wait with it.
	maxEvictions     = 50
	evictionsTimeout = 5 * time.Second
	// minEvictionAge is how old a pod is at least that is evicted. Who makes pods
	// for a node where they may not run makes no faster loop than this.
	minEvictionAge = 5 * time.Second
)

// leaver is a pod that has to leave its node. When it is evicted, an event of it
// says so, and why, under reason.
type leaver struct {
	*corev1.Pod
	reason, why string
}

// evictAll evicts pods as their PodDisruptionBudgets allow, and says when to look
// again. refused knows whose pods were refused, and for how long.
func (c *Consumer) evictAll(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, leavers []leaver, refused *flowcontrol.Backoff) time.Duration {
	refused.GC()
	var again time.Duration
	later := func(after time.Duration) {
		if again == 0 || after < again {
			again = after
		}
	}
	ctx, cancel := context.WithTimeout(ctx, evictionsTimeout)
	defer cancel()
	now, tried := c.clock.Now(), 0
	for _, pod := range leavers {
		owner, age := ownerOf(pod.Pod), now.Sub(pod.CreationTimestamp.Time)
		switch {
		case age < minEvictionAge:
			later(minEvictionAge - age)
		case refused.IsInBackOffSinceUpdate(owner, now):
			later(refused.Get(owner))
		case tried == maxEvictions, ctx.Err() != nil:
			later(pollInterval)
		default:
			tried++
			if !c.evict(ctx, offloading, pod) {
				refused.Next(owner, now)
				later(refused.Get(owner))
			} else {
				refused.DeleteEntry(owner)
			}
		}
	}
	return again
}

// blocked counts the pods that could not be evicted when that was tried last, or
// whose owner has one of these.
func blocked(leavers []leaver, refused *flowcontrol.Backoff) int {
	count := 0
	for _, pod := range leavers {
		if refused.Get(ownerOf(pod.Pod)) > 0 {
			count++
		}
	}
	return count
}

// evict asks for the end of a pod, and tells whether it was granted. Its
// deletion, when it is seen, is an event.
func (c *Consumer) evict(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, pod leaver) bool {
	err := c.evictPod(ctx, pod.Pod)
	switch {
	case err == nil:
		c.events.Eventf(pod.Pod, corev1.EventTypeNormal, pod.reason, "Evicted %s: %s", from(pod.Pod), pod.why)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It is gone, or another one of that name is there.
	case apierrors.IsTooManyRequests(err):
		c.events.Eventf(offloading, corev1.EventTypeWarning, "EvictionBlocked", "Pod %s is not evicted %s for now: %s", pod.Name, from(pod.Pod), refusal(err))
		return false
	default:
		c.events.Eventf(offloading, corev1.EventTypeWarning, "EvictionFailed", "Pod %s is not evicted %s: %s", pod.Name, from(pod.Pod), refusal(err))
		return false
	}
	return true
}

// from says where a pod leaves.
func from(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "while it waits for a node"
	}
	return "from node " + pod.Spec.NodeName
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
