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
	// minEvictionDelay and maxEvictionDelay bound the back-off after a refused eviction. Each owner of pods has a back-off
	// of its own, because the pods of one owner usually share a PodDisruptionBudget. maxUnoffloadDelay replaces
	// maxEvictionDelay while a namespace is being unoffloaded, because the time for that is limited.
	minEvictionDelay  = time.Second
	maxEvictionDelay  = 30 * time.Second
	maxUnoffloadDelay = 4 * time.Second
	// maxEvictions is the maximum number of evictions in one reconcile, and evictionsTimeout the timeout for all of
	// them. They bound how long a reconcile delays other namespaces, because the client waits as long as a
	// Retry-After of the API server requests.
	maxEvictions     = 50
	evictionsTimeout = 5 * time.Second
	// minEvictionAge is the minimum age at which a pod is evicted. It limits the rate of evictions if a controller creates
	// each evicted pod again for a node on which the pod is misplaced.
	minEvictionAge = 5 * time.Second
)

// evictee is a pod to evict, with the reason and the message of the event.
type evictee struct {
	*corev1.Pod
	reason, why string
}

// evictAll evicts pods as far as their PodDisruptionBudgets allow, and returns the time after which to retry the
// remaining ones; zero if none remains. refused is the back-off by the owner of the pods.
func (r *Reconciler) evictAll(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, evictees []evictee,
	refused *flowcontrol.Backoff,
) time.Duration {
	refused.GC()
	var retryAfter time.Duration
	later := func(after time.Duration) {
		if retryAfter == 0 || after < retryAfter {
			retryAfter = after
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
	return retryAfter
}

// blocked returns the number of pods whose owner is in back-off.
func blocked(evictees []evictee, refused *flowcontrol.Backoff) int {
	count := 0
	for _, pod := range evictees {
		if refused.Get(ownerOf(pod.Pod)) > 0 {
			count++
		}
	}
	return count
}

// evict evicts a pod, and reports whether the eviction was allowed, or the pod does not exist any more.
func (r *Reconciler) evict(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, pod evictee) bool {
	err := kit.Evict(ctx, r.Client, pod.Pod)
	switch {
	case err == nil:
		r.Events.Eventf(pod.Pod, corev1.EventTypeNormal, pod.reason, "Evicted %s: %s", from(pod.Pod), pod.why)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// The pod was deleted or replaced.
	case apierrors.IsTooManyRequests(err):
		r.Events.Eventf(offloading, corev1.EventTypeWarning, reasonEvictionBlocked,
			"Evicting pod %s %s is blocked: %s", pod.Name, from(pod.Pod), textOf(err))
		return false
	default:
		r.Events.Eventf(offloading, corev1.EventTypeWarning, reasonEvictionFailed,
			"Evicting pod %s %s failed: %s", pod.Name, from(pod.Pod), textOf(err))
		return false
	}
	return true
}

// from returns the words of a message that follow the name of an evicted pod: "from node" and the name of its node,
// or that it waits for a node.
func from(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "while it waits for a node"
	}
	return "from node " + pod.Spec.NodeName
}

// textOf returns the message of an error and the messages of its status causes, one of which names the
// PodDisruptionBudget.
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

// ownerOf returns the UID of the controller of a pod, or the UID of the pod if it has no controller.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return string(owner.UID)
	}
	return string(pod.UID)
}
