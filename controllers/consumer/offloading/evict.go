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
	"liqo.io/federation/controllers/kit"
)

const (
	// Pods of one owner are likely to have one PodDisruptionBudget: if it refuses one of them,
	// none of them is tried again for a while, which doubles from minEvictionDelay to
	// maxEvictionDelay, or to maxUnoffloadDelay while a namespace is unoffloaded, whose time is
	// limited.
	minEvictionDelay  = time.Second
	maxEvictionDelay  = 30 * time.Second
	maxUnoffloadDelay = 4 * time.Second
	// maxEvictions is how many pods of a namespace are evicted in one pass, and
	// evictionsTimeout how long all of them may take: a client waits as long as the API
	// server requests, and other namespaces wait with it.
	maxEvictions     = 50
	evictionsTimeout = 5 * time.Second
	// minEvictionAge is the minimum age of a pod that is evicted. A controller that creates
	// pods for a node that they may not run on makes no faster loop than this.
	minEvictionAge = 5 * time.Second
)

// evictee is a pod that has to leave its node, with the reason and the text of the event of
// its eviction.
type evictee struct {
	*corev1.Pod
	reason, why string
}

// evictAll evicts pods as their PodDisruptionBudgets allow, and returns when to try the
// others. refused has the owners whose pods were refused, and for how long.
func (r *Reconciler) evictAll(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, evictees []evictee,
	refused *flowcontrol.Backoff,
) time.Duration {
	refused.GC()
	var again time.Duration
	later := func(after time.Duration) {
		if again == 0 || after < again {
			again = after
		}
	}
	ctx, cancel := context.WithTimeout(ctx, evictionsTimeout)
	defer cancel()
	now, tried := r.Clock.Now(), 0
	for _, pod := range evictees {
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
			if !r.evict(ctx, offloading, pod) {
				refused.Next(owner, now)
				later(refused.Get(owner))
			} else {
				refused.DeleteEntry(owner)
			}
		}
	}
	return again
}

// blocked counts the pods whose last eviction was refused, or that of another pod of their
// owner.
func blocked(evictees []evictee, refused *flowcontrol.Backoff) int {
	count := 0
	for _, pod := range evictees {
		if refused.Get(ownerOf(pod.Pod)) > 0 {
			count++
		}
	}
	return count
}

// evict evicts a pod, and reports whether that was granted. Its deletion is an event.
func (r *Reconciler) evict(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, pod evictee) bool {
	err := kit.Evict(ctx, r.Client, pod.Pod)
	switch {
	case err == nil:
		r.Events.Eventf(pod.Pod, corev1.EventTypeNormal, pod.reason, "Evicted %s: %s", from(pod.Pod), pod.why)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It is gone, or there is another pod of that name.
	case apierrors.IsTooManyRequests(err):
		r.Events.Eventf(offloading, corev1.EventTypeWarning, "EvictionBlocked",
			"Pod %s is not evicted %s for now: %s", pod.Name, from(pod.Pod), textOf(err))
		return false
	default:
		r.Events.Eventf(offloading, corev1.EventTypeWarning, "EvictionFailed",
			"Pod %s is not evicted %s: %s", pod.Name, from(pod.Pod), textOf(err))
		return false
	}
	return true
}

// from returns where a pod leaves.
func from(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "while it waits for a node"
	}
	return "from node " + pod.Spec.NodeName
}

// textOf returns an error with its causes, one of which names the PodDisruptionBudget.
func textOf(err error) string {
	text := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			text += " " + cause.Message + "."
		}
	}
	return text
}

// ownerOf returns the UID of the controller that creates a pod again, or that of a pod that
// none creates again.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return string(owner.UID)
	}
	return string(pod.UID)
}
