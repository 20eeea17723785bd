// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// reconcile brings one pod and its shadow pod in line, in any state of either of them.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName) error {
	pod, err := c.Lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return c.forget(ctx, key)
	}
	if err != nil {
		return err
	}
	state := c.Namespaces.State(key.Namespace)
	if pod.DeletionTimestamp != nil {
		return c.remove(ctx, key, pod, state)
	}
	if done, err := c.fetchEnd(ctx, key, pod, state.Namespace); done || err != nil {
		return err
	}
	switch {
	case translate.Terminal(pod.Status.Phase):
		// It may have failed here while it waited.
		c.states.unblockAll(key)
		return nil
	case !state.Offloaded:
		c.states.unblockAll(key)
		return c.publish(ctx, pod, c.unoffloadedStatus(key, pod, state.Message+notForDaemonSets(pod)))
	case !state.Ready:
		c.states.change(key, func(s *podState) { s.local.unoffloadedAt = time.Time{} })
		return c.awaitNamespace(ctx, key, pod, state)
	case !state.Namespace.Synced(), !c.Reachable():
		// It is enqueued when the remote namespace is synced, and when the provider answers again.
		return nil
	}

	c.states.change(key, func(s *podState) {
		s.local.unoffloadedAt = time.Time{}
		if s.local.boundAt.IsZero() {
			s.local.boundAt = c.Clock.Now()
		}
	})
	shadow, there := c.shadow(state.Namespace, key), state.Namespace.RemotePod(pod)
	switch {
	case shadow == nil:
		return c.create(ctx, key, pod, state.Namespace)
	case translate.OriginUID(shadow) != pod.UID:
		// Its pod is gone and had the same name; the deletion is an event.
		return c.deleteShadow(ctx, key, shadow, -1)
	case shadow.DeletionTimestamp != nil:
		return nil
	}
	if c.overdue(key, shadow) {
		if err := c.checkUnobserved(ctx, key, shadow); err != nil {
			return err
		}
	}
	refused, updateErr := c.update(ctx, pod, shadow)
	// The status is also written while an update is refused.
	status := c.statusOf(pod, shadow, there)
	translate.RefuseContainers(&status, refused.containers, refused.message)
	if refused.resize != nil {
		c.deferResize(pod, &status, refused.resize)
	}
	return errors.Join(
		updateErr,
		c.publish(ctx, pod, status),
		c.refreshTokens(ctx, key, pod, shadow, state.Namespace),
		c.deleteLost(ctx, key, pod, there),
	)
}

// statusOf returns the status of a pod by its shadow pod and remote pod, with the addresses at
// which this cluster reaches it.
func (c *Controller) statusOf(
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	there *translate.RemotePod,
) corev1.PodStatus {
	if c.Network != nil {
		shadow, there = c.Network.here(shadow, there)
	}
	return translate.PodStatus(pod, shadow, there, c.NodeIP, c.now())
}

// unoffloadedStatus returns the status of a pod whose namespace is not offloaded to the provider.
// A pod that ran is not ready, but fails only after evictionGrace: until then the namespace
// controller evicts it, so that its owner creates another one and no failed one is left.
func (c *Controller) unoffloadedStatus(key cache.ObjectName, pod *corev1.Pod, message string) corev1.PodStatus {
	var since time.Time
	c.states.change(key, func(s *podState) {
		if s.local.unoffloadedAt.IsZero() {
			s.local.unoffloadedAt = c.Clock.Now()
		}
		since = s.local.unoffloadedAt
	})
	wait := evictionGrace - c.Clock.Since(since)
	if wait > 0 {
		c.queue.AddAfter(key, wait)
	}
	return translate.NotOffloaded(pod, message, wait > 0, c.now())
}

// awaitNamespace reports in the status of a pod that its remote namespace is missing, after
// namespaceGrace. A pod that ran keeps its last status.
func (c *Controller) awaitNamespace(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	state remotens.State,
) error {
	if translate.Ran(&pod.Status) {
		return nil
	}
	if age := c.Clock.Since(pod.CreationTimestamp.Time); age < namespaceGrace {
		c.queue.AddAfter(key, namespaceGrace-age)
		return nil
	}
	return c.publish(ctx, pod, translate.Refused(pod, v1alpha1.ReasonOffloadingBackOff, state.Message))
}

// notForDaemonSets returns the advice for the owner of a DaemonSet, whose pods tolerate every
// taint.
func notForDaemonSets(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return "; keep the DaemonSet off virtual nodes with a node affinity: " + v1alpha1.LabelType + " NotIn [" + v1alpha1.TypeVirtualNode + "]"
	}
	return ""
}

func (c *Controller) now() metav1.Time { return metav1.NewTime(c.Clock.Now()) }
