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

// refusedParts are the parts of an update that the provider refuses: ephemeral containers with the
// reason, and a resize.
type refusedParts struct {
	containers []corev1.EphemeralContainer
	message    string
	resize     error
}

// update sends the changes of a running pod to the provider. It returns the refused parts: ephemeral containers that
// are invalid, and a resize. It fails, and is retried, for a refused resize and for ephemeral containers that are
// forbidden. The other changes are sent regardless of refused parts.
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
			// It may be allowed later, for example by a RoleBinding.
			desired.Spec.Pod.EphemeralContainers = nil
			_, others := c.sendUpdate(ctx, seen, desired)
			err = errors.Join(err, others)
		}
	}
	return refusedParts{}, fmt.Errorf("updating the shadow pod on %s: %w", c.Provider, err)
}

// sendUpdate updates a shadow pod to the desired one, unless it was replaced since it was observed. It returns the
// ephemeral containers that were added.
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

// deferResize sets in the status of a pod the reason for which the provider does not resize it: Deferred for a lack of
// quota, otherwise Infeasible.
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
