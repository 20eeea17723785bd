// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// publish patches the status of a pod, unless it is unchanged. If the cache has a newer version of the pod than from,
// it writes nothing and the pod is reconciled again.
func (c *Controller) publish(ctx context.Context, from *corev1.Pod, status corev1.PodStatus) error {
	if translate.SameStatus(&from.Status, &status) {
		return nil
	}
	key := cache.MetaObjectToName(from)
	if wait := c.postponed(key, &from.Status, &status); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	pod, err := c.Lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if last := c.states.read(key).local.written; last != "" && last == pod.ResourceVersion {
		return nil
	}
	if pod.UID != from.UID || pod.ResourceVersion != from.ResourceVersion {
		c.queue.Add(key)
		return nil
	}
	if wait := c.delayed(key); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	klog.FromContext(ctx).V(4).Info("Pod has a new status", "phase", status.Phase, "reason", status.Reason)
	patch, err := statusPatch(pod, &status)
	if err != nil {
		return fmt.Errorf("comparing the status of pod %s: %w", key, err)
	}
	written, err := c.Local.CoreV1().
		Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching the status of pod %s: %w", key, err)
	}
	// A patch without an effect causes no event about the pod. If written were set then, the cache would keep the version
	// in written, and no further status would be written.
	if written.ResourceVersion != pod.ResourceVersion {
		c.states.change(key, func(s *podState) { s.local.written = pod.ResourceVersion })
	}
	c.Metrics.statusWrites.Inc()
	if isReady(&status) && !isReady(&pod.Status) {
		if since := c.states.read(key).local.readyAt; !since.IsZero() {
			c.Metrics.readySeconds.Observe(c.Clock.Since(since).Seconds())
		}
	}
	return nil
}

// postponed returns the time to wait before a status is written that differs only in the address of the virtual
// kubelet; otherwise zero. After a restart of the virtual kubelet, the statuses of all its pods need the new address,
// and these writes must not delay the statuses of new pods.
func (c *Controller) postponed(key cache.ObjectName, before, status *corev1.PodStatus) time.Duration {
	same := *status
	same.HostIP, same.HostIPs = before.HostIP, before.HostIPs
	if before.HostIP == "" || !translate.SameStatus(before, &same) {
		c.states.change(key, func(s *podState) { s.local.postponedUntil = time.Time{} })
		return 0
	}
	now := c.Clock.Now()
	var wait time.Duration
	c.states.change(key, func(s *podState) {
		if s.local.postponedUntil.IsZero() {
			s.local.postponedUntil = now.Add(c.moves.ReserveN(now, 1).DelayFrom(now))
		}
		wait = s.local.postponedUntil.Sub(now)
	})
	return wait
}

// delayed returns the time to wait before a status is written, so that the rate of writes is not exceeded; zero if it
// may be written now. The pod's place among the delayed writes is kept until then, whatever changes meanwhile: only its
// last status is written.
func (c *Controller) delayed(key cache.ObjectName) time.Duration {
	now := c.Clock.Now()
	var wait time.Duration
	c.states.change(key, func(s *podState) {
		if s.local.delayedUntil.IsZero() {
			wait = c.statuses.ReserveN(now, 1).DelayFrom(now)
		} else {
			wait = s.local.delayedUntil.Sub(now)
		}
		if wait = max(wait, 0); wait > 0 {
			s.local.delayedUntil = now.Add(wait)
		} else {
			s.local.delayedUntil = time.Time{}
		}
	})
	return wait
}

// statusPatch returns the strategic merge patch from the status of a pod to a new status. It includes the pod's UID, so
// that the API server refuses it for another pod of this name.
func statusPatch(pod *corev1.Pod, status *corev1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}
