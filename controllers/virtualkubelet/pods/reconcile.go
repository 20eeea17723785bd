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

// reconcile creates, updates or deletes the shadow pod of one local pod, and writes the status of the local pod.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName) error {
	pod, err := c.Lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return c.deleteOrphan(ctx, key)
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
		// A pod that waits for quota can become Failed, for example when it is evicted.
		c.states.unblockAll(key)
		return nil
	case !state.Offloaded:
		c.states.unblockAll(key)
		return c.publish(ctx, pod, c.unoffloadedStatus(key, pod, state.Message+notForDaemonSets(pod)))
	case !state.Ready:
		c.states.change(key, func(s *podState) { s.local.unoffloadedAt = time.Time{} })
		return c.awaitNamespace(ctx, key, pod, state)
	case !state.Namespace.Synced(), !c.Reachable():
		// Events.Synced and the first successful check of the provider enqueue the pod again.
		return c.publish(ctx, pod, c.permitted(pod).Status)
	}

	c.states.change(key, func(s *podState) {
		s.local.unoffloadedAt = time.Time{}
		if s.local.boundAt.IsZero() {
			s.local.boundAt = c.Clock.Now()
		}
	})
	shadow, remotePod := c.shadow(state.Namespace, key), state.Namespace.RemotePod(pod)
	switch {
	case shadow == nil:
		return c.create(ctx, key, pod, state.Namespace)
	case translate.OriginUID(shadow) != pod.UID:
		// The shadow pod belongs to an earlier local pod of this name. The event of its deletion enqueues this pod.
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
	// The status is written even if the update of the shadow pod failed.
	status := c.statusOf(pod, shadow, remotePod)
	translate.RefuseContainers(&status, refused.containers, refused.message)
	if refused.resize != nil {
		c.deferResize(pod, &status, refused.resize)
	}
	return errors.Join(
		updateErr,
		c.publish(ctx, pod, status),
		c.refreshTokens(ctx, key, pod, shadow, state.Namespace),
		c.deleteLost(ctx, key, pod, remotePod),
	)
}

// statusOf returns the status of a local pod from its shadow pod and remote pod, with the addresses at which the local
// cluster reaches the remote pod.
func (c *Controller) statusOf(
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	remotePod *translate.RemotePod,
) corev1.PodStatus {
	if c.Network != nil {
		shadow, remotePod = c.Network.toLocal(shadow, remotePod)
	}
	pod = c.permitted(pod)
	return translate.PodStatus(pod, shadow, remotePod, c.NodeIP, c.now())
}

// permitted returns Network.permitted of a local pod, or the pod itself without a Network. The result shares memory
// with the argument.
func (c *Controller) permitted(pod *corev1.Pod) *corev1.Pod {
	if c.Network == nil {
		return pod
	}
	return c.Network.permitted(pod)
}

// unoffloadedStatus returns the status of a pod whose namespace is not offloaded to the provider. A pod that ran
// becomes not ready at once, and fails after evictionGrace. Until then, the offloading controller can evict the pod, so
// that the pod's controller replaces it and no failed pod remains.
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

// awaitNamespace reports in the status of a pod that the pod waits for its remote namespace, once the pod is older than
// namespaceGrace. The status of a pod that ran is not changed.
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

// notForDaemonSets returns advice about node affinity for the pod of a DaemonSet, which tolerates the taint of every
// virtual node; otherwise empty.
func notForDaemonSets(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return " Keep the DaemonSet off virtual nodes with a node affinity: " +
			v1alpha1.LabelType + " NotIn [" + v1alpha1.TypeVirtualNode + "]."
	}
	return ""
}

func (c *Controller) now() metav1.Time { return metav1.NewTime(c.Clock.Now()) }
