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

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// refusedParts are the changes of a pod that the provider refused: containers are the new ephemeral containers, message
// is the message for their status, and resize is the error of a resize. Empty and nil mean none.
type refusedParts struct {
	containers []corev1.EphemeralContainer
	message    string
	resize     error
}

// update sends the changes of a local pod to its shadow pod, whose last known state is seen. Changes that the provider
// refuses do not prevent the others: it returns invalid ephemeral containers, which are not retried, and a refused
// resize. It fails, so that the pod is retried, if a resize is refused, ephemeral containers are forbidden or a request
// fails otherwise.
func (c *Controller) update(ctx context.Context, pod *corev1.Pod, seen *v1alpha1.ShadowPod) (refusedParts, error) {
	key := cache.MetaObjectToName(pod)
	desired := translate.ShadowPod(pod, seen.Namespace, c.destination(), c.Patch())
	if !translate.UpdateShadowPod(seen.DeepCopy(), desired) {
		c.states.unblock(key, overQuota)
		return refusedParts{}, nil
	}
	added, err := c.sendUpdate(ctx, seen, desired)
	if err != nil && remote.Refused(err) && translate.Resizes(seen, desired) {
		tooMuch := err
		translate.KeepResources(desired)
		if added, err = c.sendUpdate(ctx, seen, desired); err == nil {
			if apierrors.HasStatusCause(tooMuch, v1alpha1.CauseQuotaExceeded) {
				c.states.block(key, overQuota)
			}
			return refusedParts{resize: tooMuch}, fmt.Errorf("resizing the shadow pod on %s: %w", c.Provider, tooMuch)
		}
	}
	switch {
	case err == nil:
		c.accepted(key)
		return refusedParts{}, nil
	case remote.Refused(err):
		message := translate.Message(fmt.Sprintf("%s refuses the change of the pod: %v", c.Provider, err))
		c.Recorder.Event(pod, corev1.EventTypeWarning, v1alpha1.ReasonProviderRefused, message)
		switch {
		case len(added) == 0:
		case !apierrors.IsForbidden(err):
			return refusedParts{containers: added, message: message}, nil
		default:
			// Ephemeral containers may be allowed later, for example by a RoleBinding, so they are retried.
			desired.Spec.Pod.EphemeralContainers = nil
			_, others := c.sendUpdate(ctx, seen, desired)
			err = errors.Join(err, others)
		}
	}
	return refusedParts{}, fmt.Errorf("updating the shadow pod on %s: %w", c.Provider, err)
}

// sendUpdate updates the shadow pod on the provider to the desired one. It does nothing if the shadow pod was deleted
// or replaced. It returns the ephemeral containers that the update adds, also if it fails.
func (c *Controller) sendUpdate(
	ctx context.Context,
	seen, desired *v1alpha1.ShadowPod,
) (added []corev1.EphemeralContainer, err error) {
	client := c.Remote.Federation.FederationV1alpha1().ShadowPods(seen.Namespace)
	live, err := client.Get(ctx, seen.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	added = translate.MissingEphemeralContainers(live, desired)
	if live.UID == seen.UID && translate.UpdateShadowPod(live, desired) {
		_, err = client.Update(ctx, live, metav1.UpdateOptions{})
	}
	return added, err
}

// deferResize writes to the status of a pod why the provider does not resize it, and records an event if that is new.
// The reason is Deferred if the quota does not suffice, otherwise Infeasible.
func (c *Controller) deferResize(pod *corev1.Pod, status *corev1.PodStatus, err error) {
	event, why, message := v1alpha1.ReasonProviderRefused, corev1.PodReasonInfeasible, fmt.Sprintf(
		"%s refuses to resize the pod: %v",
		c.Provider,
		err,
	)
	if apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) {
		event, why, message = ReasonQuotaExceeded, corev1.PodReasonDeferred, fmt.Sprintf(
			"%s has no room to resize the pod: %v",
			c.Provider,
			err,
		)
	}
	if translate.DeferResize(status, pod, why, message, c.now()) {
		c.Recorder.Event(pod, corev1.EventTypeWarning, event, translate.Message(message))
	}
}
