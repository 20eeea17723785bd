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

// ReasonProviderNodeLost of an event on a pod means that the provider deletes the remote pod, but its node did not
// report the end of the containers within 30 seconds after the grace period, for example because the node failed. The
// local pod is deleted, so that its controller replaces it. See docs/pods.md#when-a-node-of-the-provider-is-lost.
const ReasonProviderNodeLost = "ProviderNodeLost"

// lostGrace is the time after the end of the grace period of a deleted remote pod at which the pod counts as lost if it
// has not ended.
const lostGrace = 30 * time.Second

// longestGrace is the upper bound for the grace period that a provider reports for a remote pod.
const longestGrace = 24 * time.Hour

// graceOf returns the grace period of a remote pod that is being deleted, at most longestGrace.
func graceOf(remotePod *translate.RemotePod) time.Duration {
	seconds := min(max(ptr.Deref(remotePod.DeletionGracePeriodSeconds, 0), 0), int64(longestGrace/time.Second))
	return time.Duration(seconds) * time.Second
}

// deleteLost deletes a local pod whose remote pod is being deleted on the provider and did not end within lostGrace
// after its grace period, for example because the provider's node failed. The provider does not create the remote pod
// again before it has ended, because both might run. The controller of the local pod creates another local pod, as for
// a pod on a lost local node. A pod without a controller is not deleted.
func (c *Controller) deleteLost(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	remotePod *translate.RemotePod,
) error {
	if remotePod == nil || remotePod.DeletionTimestamp == nil || translate.Terminal(remotePod.Status.Phase) ||
		metav1.GetControllerOfNoCopy(pod) == nil {
		c.setEnding(key, nil)
		return nil
	}
	seen := c.states.read(key).local.ending
	if seen == nil || seen.uid != remotePod.UID {
		seen = &ending{uid: remotePod.UID, since: c.Clock.Now()}
		c.setEnding(key, seen)
	}
	if wait := lostGrace + graceOf(remotePod) - c.Clock.Since(seen.since); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	if seen.givenUp {
		// The cache has not received the deletion of the local pod yet.
		return nil
	}
	// The remote pod is read from the API server, because the watch of the cache may be interrupted.
	live, err := c.Remote.Core.CoreV1().Pods(remotePod.Namespace).Get(ctx, remotePod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.UID != remotePod.UID || translate.Terminal(live.Status.Phase)):
		// The watch will report that the remote pod ended.
		return nil
	case err != nil:
		return fmt.Errorf("reading the remote pod on %s: %w", c.Provider, err)
	}
	// A taint-based eviction sets the condition DisruptionTarget too; the pod failure policy of a Job can ignore these
	// pods.
	patch, err := statusPatch(
		pod,
		ptr.To(
			translate.Disrupted(
				pod,
				ReasonProviderNodeLost,
				c.Provider+" evicted the remote pod and cannot confirm that it has ended",
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
		return fmt.Errorf("patching the status of a pod that is lost on %s: %w", c.Provider, err)
	}
	err = c.Local.CoreV1().Pods(pod.Namespace).Delete(
		ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)),
	)
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
			"%s evicted the remote pod and cannot confirm that it has ended, for example because its node is lost. "+
				"The pod is deleted, so that its controller replaces it.",
			c.Provider,
		),
	)
	return nil
}

func (c *Controller) setEnding(key cache.ObjectName, to *ending) {
	c.states.change(key, func(s *podState) { s.local.ending = to })
}
