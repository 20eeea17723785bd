// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Reasons of pods that the provider does not accept.
const (
	// ReasonQuotaExceeded means that the quota at the provider does not suffice for the pod. Wait until pods end, or
	// request a larger quota: docs/quotas.md.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonProviderConflict means that the remote namespace has a ShadowPod of this name that belongs to another virtual
	// node. The ShadowPod is not changed. Delete or rename one of the two pods.
	ReasonProviderConflict = "ProviderConflict"
)

// awaitConsumerAPI reports in the status of a pod that the pod waits for the address at which the provider reaches the
// consumer's API server. The shadow pod cannot be created before that address is known, because its volumes and host
// aliases are immutable. The status of a pod that ran is not changed.
func (c *Controller) awaitConsumerAPI(ctx context.Context, pod *corev1.Pod) error {
	if translate.Ran(&pod.Status) {
		return nil
	}
	return c.publish(ctx, pod, translate.Refused(pod, v1alpha1.ReasonOffloadingBackOff, fmt.Sprintf(
		"%s cannot reach this cluster's API server yet: "+
			"see the condition Networking of the ForeignCluster, and its events.", c.Provider)))
}

// create creates the shadow pod of a pod and sends the pod's tokens. If the provider refuses the shadow pod, it writes
// the reason to the status of the pod, and the creation is retried.
func (c *Controller) create(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, t *remotens.Namespace) error {
	to := c.destination()
	if _, ok := c.consumerAPIAddress(c.To.ConsumerAPI); !ok && translate.ReachesConsumerAPI(pod, to) {
		return c.awaitConsumerAPI(ctx, pod)
	}
	claims, err := c.remoteClaims(ctx, pod, t.Remote)
	if err != nil {
		return c.awaitClaims(ctx, pod, err)
	}
	desired := translate.ShadowPod(pod, t.Remote, to, c.Patch())
	translate.UseRemoteClaims(desired, pod, claims)
	// A pod cannot be created with ephemeral containers. The next reconcile adds them by an update.
	desired.Spec.Pod.EphemeralContainers = nil
	created, err := c.Remote.Federation.FederationV1alpha1().
		ShadowPods(t.Remote).
		Create(ctx, desired, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = c.Remote.Federation.FederationV1alpha1().ShadowPods(t.Remote).Get(
			ctx, pod.Name, metav1.GetOptions{},
		)
		if err == nil && !c.owns(created) {
			message := fmt.Sprintf(
				"Namespace %s of %s has a ShadowPod of this name that does not belong to node %s.",
				t.Remote,
				c.Provider,
				c.NodeName,
			)
			c.queue.AddAfter(key, conflictRetry)
			return c.refuse(ctx, pod, ReasonProviderConflict, message)
		}
	}
	if err != nil {
		return c.refused(ctx, pod, err)
	}
	// If the cache received the shadow pod before this response, no event will clear shadow.created: the check below
	// clears it.
	trimmed, _ := remotens.TrimShadowPod(created)
	c.states.change(key, func(s *podState) {
		s.shadow.created = &creation{trimmed.(*v1alpha1.ShadowPod), c.Clock.Now()}
	})
	c.queue.AddAfter(key, unobservedGrace)
	if t.Shadow(key.Name) != nil {
		c.states.change(key, func(s *podState) { s.shadow.created = nil })
	}
	c.accepted(key)
	c.states.change(key, func(s *podState) {
		if !s.local.offloaded && !s.local.boundAt.IsZero() {
			c.Metrics.offloadSeconds.Observe(c.Clock.Since(s.local.boundAt).Seconds())
		}
		s.local.offloaded = true
	})
	klog.FromContext(ctx).V(2).Info("Created shadow pod", "shadowPod", klog.KObj(created))
	// The containers cannot start before the Secret with their tokens exists.
	return c.refreshTokens(ctx, key, pod, created, t)
}

// owns reports whether a shadow pod has the labels of this virtual node.
func (c *Controller) owns(shadow *v1alpha1.ShadowPod) bool {
	for name, value := range c.To.Labels() {
		if shadow.Labels[name] != value {
			return false
		}
	}
	return true
}

// refused handles an error of the creation of a shadow pod. If the provider refused the shadow pod, it writes the
// reason to the status of the pod. It returns the error, so that the pod is retried with backoff. If the provider has
// too many finished shadow pods and tidy deletes some, it returns nil and retries the pod after unobservedCheck.
func (c *Controller) refused(ctx context.Context, pod *corev1.Pod, err error) error {
	var statusErr error
	switch key := cache.MetaObjectToName(pod); {
	case apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded):
		c.states.block(key, overQuota)
		message := fmt.Sprintf("%s has no room for the pod: %v", c.Provider, err)
		statusErr = c.refuse(ctx, pod, ReasonQuotaExceeded, message)
	case apierrors.HasStatusCause(err, v1alpha1.CauseTooManyFinished) && c.tidy(ctx):
		// Users need not act, so the status does not report the refusal.
		c.states.block(key, tooManyFinished)
		c.queue.AddAfter(key, unobservedCheck)
		return nil
	case remote.Refused(err):
		message := fmt.Sprintf("%s refuses the pod: %v", c.Provider, err)
		statusErr = c.refuse(ctx, pod, v1alpha1.ReasonProviderRefused, message)
	}
	return errors.Join(fmt.Errorf("creating the shadow pod on %s: %w", c.Provider, err), statusErr)
}

// refuse writes a reason and a message to the status of a pod, and records an event if either changed.
func (c *Controller) refuse(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	status := translate.Refused(pod, reason, message)
	if pod.Status.Reason != status.Reason || pod.Status.Message != status.Message {
		c.Recorder.Event(pod, corev1.EventTypeWarning, reason, status.Message)
	}
	return c.publish(ctx, pod, status)
}
