// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// ReasonProviderNodeLost means that the provider has evicted the pod and cannot report its end:
// the node there is lost.
const ReasonProviderNodeLost = "ProviderNodeLost"

// lostGrace is the time in addition to its grace period after which a pod that does not end on the
// provider counts as lost.
const lostGrace = 30 * time.Second

// longestGrace is the limit of the grace period that a provider may report.
const longestGrace = 24 * time.Hour

// graceOf returns the grace period of a pod on the provider.
func graceOf(there *translate.RemotePod) time.Duration {
	seconds := min(max(ptr.Deref(there.DeletionGracePeriodSeconds, 0), 0), int64(longestGrace/time.Second))
	return time.Duration(seconds) * time.Second
}

// deleteLost deletes a pod that the provider evicts and whose end it cannot report, for example on
// a node that is dead or cut off. The shadow pod cannot be started again until that is known, or
// two might run; but the owner of the local pod can create another one, as for a pod on a lost
// local node. A pod without a controller stays.
func (c *Controller) deleteLost(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	there *translate.RemotePod,
) error {
	if there == nil || there.DeletionTimestamp == nil || translate.Terminal(there.Status.Phase) ||
		metav1.GetControllerOfNoCopy(pod) == nil {
		c.setEnding(key, nil)
		return nil
	}
	seen := c.states.read(key).local.ending
	if seen == nil || seen.uid != there.UID {
		seen = &ending{uid: there.UID, since: c.Clock.Now()}
		c.setEnding(key, seen)
	}
	if wait := lostGrace + graceOf(there) - c.Clock.Since(seen.since); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	if seen.givenUp {
		// The cache has not observed it yet.
		return nil
	}
	// The cache may be as old as the last contact with the provider.
	live, err := c.Remote.Core.CoreV1().Pods(there.Namespace).Get(ctx, there.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.UID != there.UID || translate.Terminal(live.Status.Phase)):
		// The watch will report it.
		return nil
	case err != nil:
		return fmt.Errorf("asking %s whether the pod is still ending there: %w", c.Provider, err)
	}
	// A taint-based eviction sets this too, for Jobs that ignore such pods.
	patch, err := statusPatch(
		pod,
		ptr.To(
			translate.Disrupted(
				pod,
				ReasonProviderNodeLost,
				c.Provider+" has given up the pod and cannot tell that it has ended there",
				c.now(),
			),
		),
	)
	if err != nil {
		return fmt.Errorf("comparing the status of pod %s: %w", key, err)
	}
	_, err = c.Local.CoreV1().
		Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("saying of the pod that it is lost on %s: %w", c.Provider, err)
	}
	err = c.Local.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting the pod, which is lost on %s: %w", c.Provider, err)
	}
	c.setEnding(key, &ending{uid: seen.uid, since: seen.since, givenUp: true})
	c.Recorder.Event(
		pod,
		corev1.EventTypeWarning,
		ReasonProviderNodeLost,
		fmt.Sprintf(
			"%s has given up the pod and cannot tell that it has ended there, as when its node is lost. It is deleted here, so that another one is made",
			c.Provider,
		),
	)
	return nil
}

func (c *Controller) setEnding(key cache.ObjectName, to *ending) {
	c.states.change(key, func(s *podState) { s.local.ending = to })
}
