// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the condition PodCreated, beside ReasonProviderRefused.
const (
	reasonCreated   = "Created"
	reasonConflict  = "NameConflict"
	reasonNotATwin  = "NotATwin"
	conflictMessage = "The provider has a pod of this name that is not made of a shadow pod; it is left alone."
)

// create makes the pod of a shadow pod. A refusal is told in the shadow pod,
// and the pod is tried again after a while.
func (c *Controller) create(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod) (time.Duration, error) {
	if c.backoff.IsInBackOffSinceUpdate(key.String(), c.clock.Now()) {
		return c.backoff.Get(key.String()), nil
	}
	twin, err := c.twin(shadow)
	if err != nil {
		return 0, err
	}
	if twin == nil {
		c.backoff.Next(key.String(), c.clock.Now())
		return c.backoff.Get(key.String()), c.setCreated(ctx, shadow, metav1.ConditionFalse, reasonNotATwin,
			"The namespace is not a twin of a consumer's; nothing runs there.")
	}
	wanted, err := podFor(shadow, twin)
	if err != nil {
		return 0, err
	}
	place := c.placement(twin.Labels[v1alpha1.LabelForeignCluster], shadow.Spec.OfferedNode)
	confine(&wanted.Spec, place.Labels)
	attract(&wanted.Spec, place.Node)
	pod, err := c.kube.CoreV1().Pods(key.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.expect(key, pod.UID)
		return 0, c.setCreated(ctx, shadow, metav1.ConditionTrue, reasonCreated, "")
	case apierrors.IsAlreadyExists(err):
		return c.alreadyThere(ctx, key, shadow, twin)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return 0, nil
	case remote.Refused(err):
		return c.refused(ctx, key, shadow, err)
	}
	return 0, fmt.Errorf("create pod %s: %w", key, err)
}

// twin is the namespace of a shadow pod, or nil if it is not a twin.
func (c *Controller) twin(shadow *v1alpha1.ShadowPod) (*corev1.Namespace, error) {
	namespace, err := c.namespaces.Get(shadow.Namespace)
	if err != nil {
		return nil, fmt.Errorf("find the namespace of shadow pod %s: %w", cache.MetaObjectToName(shadow), err)
	}
	if namespace.Labels[v1alpha1.LabelRole] != v1alpha1.RoleTwin {
		return nil, nil
	}
	return namespace, nil
}

func (c *Controller) refused(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod, err error) (time.Duration, error) {
	// It may quote what the peer wrote.
	message := remote.Text(err.Error())
	c.backoff.Next(key.String(), c.clock.Now())
	c.events.Eventf(shadow, corev1.EventTypeWarning, "FailedCreate", "The provider refused the pod: %s", message)
	return c.backoff.Get(key.String()), c.setCreated(ctx, shadow, metav1.ConditionFalse, v1alpha1.ReasonProviderRefused, message)
}

// alreadyThere deals with a pod of the name that the cache does not hold: it
// lost the label that the cache selects by, was not seen yet, or is somebody
// else's.
func (c *Controller) alreadyThere(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod, twin *corev1.Namespace) (time.Duration, error) {
	pod, err := c.kube.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("get pod %s: %w", key, err)
	}
	if !metav1.IsControlledBy(pod, shadow) {
		return c.conflict(ctx, key, shadow)
	}
	if _, labelled := pod.Labels[v1alpha1.LabelOrigin]; labelled {
		c.expect(key, pod.UID)
		return cacheLag, nil
	}
	return c.write(ctx, key, shadow, twin, pod)
}

func (c *Controller) conflict(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod) (time.Duration, error) {
	c.backoff.Next(key.String(), c.clock.Now())
	if condition := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodCreated); condition == nil || condition.Reason != reasonConflict {
		c.events.Event(shadow, corev1.EventTypeWarning, reasonConflict, conflictMessage)
	}
	return c.backoff.Get(key.String()), c.setCreated(ctx, shadow, metav1.ConditionFalse, reasonConflict, conflictMessage)
}

// sync hands changes of the shadow pod on to its pod.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	gift, err := giftOf(shadow)
	if err != nil {
		return 0, err
	}
	given := givenTo(pod)
	switch {
	case given.Hash != gift.Hash:
	case !resizes(shadow, given, gift):
		return 0, c.settle(ctx, shadow, pod)
	case c.waitsToResize(key.String(), shadow):
		return c.backoff.Get(key.String()), nil
	}
	twin, err := c.twin(shadow)
	if err != nil || twin == nil {
		return 0, err
	}
	// The cache holds no specs.
	pod, err = c.kube.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("get pod %s: %w", key, err)
	}
	if !metav1.IsControlledBy(pod, shadow) {
		return cacheLag, nil
	}
	return c.write(ctx, key, shadow, twin, pod)
}

// write changes a pod as its shadow pod was changed. The containers that
// somebody looks into it with and its resources come first: once the rest is
// written, the pod counts as changed.
func (c *Controller) write(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod, twin *corev1.Namespace, pod *corev1.Pod) (time.Duration, error) {
	pod, err := c.debug(ctx, shadow, pod)
	var tooMuch error
	if err == nil {
		pod, tooMuch, err = c.resize(ctx, shadow, pod)
	}
	if err == nil {
		changed := pod.DeepCopy()
		if err := update(changed, shadow, twin, tooMuch == nil); err != nil {
			return 0, err
		}
		_, err = c.kube.CoreV1().Pods(key.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	}
	switch {
	case err == nil && tooMuch != nil:
		c.backoff.Next(key.String(), c.clock.Now())
		return c.backoff.Get(key.String()), c.resizeRefused(ctx, shadow, tooMuch)
	case err == nil, apierrors.IsNotFound(err):
		return 0, nil
	case remote.Refused(err):
		c.backoff.Next(key.String(), c.clock.Now())
		c.changeRefused(shadow, err)
		return c.backoff.Get(key.String()), nil
	}
	return 0, fmt.Errorf("update pod %s: %w", key, err)
}

// debug adds the ephemeral containers that a pod does not have, each by
// itself: one that is refused, as by a level of Pod Security above ours, stays in
// the shadow pod for good, and must hold up neither others nor the rest.
func (c *Controller) debug(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (*corev1.Pod, error) {
	for _, container := range missingEphemeralContainers(pod, shadow) {
		debugged := pod.DeepCopy()
		debugged.Spec.EphemeralContainers = append(debugged.Spec.EphemeralContainers, container)
		updated, err := c.kube.CoreV1().Pods(pod.Namespace).UpdateEphemeralContainers(ctx, pod.Name, debugged, metav1.UpdateOptions{})
		switch {
		case err == nil:
			pod = updated
		case remote.Refused(err):
			c.changeRefused(shadow, fmt.Errorf("ephemeral container %s: %w", container.Name, err))
		default:
			return nil, err
		}
	}
	return pod, nil
}

// changeRefused tells that the provider refuses a change; the message may quote
// what the peer wrote.
func (c *Controller) changeRefused(shadow *v1alpha1.ShadowPod, err error) {
	c.events.Eventf(shadow, corev1.EventTypeWarning, "FailedUpdate", "The provider refused the change of the pod: %s", remote.Text(err.Error()))
}
