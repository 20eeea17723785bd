// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

const (
	// reasonRefusedByPolicy of the condition PodPermitted of a ShadowPod, its events, and the status of its local pod
	// means that the limits for pods of the consumer refuse a running pod. The message names the field in which the
	// provider's administrator can permit the pod: docs/trust.md#pods-that-a-change-refuses.
	reasonRefusedByPolicy = "RefusedByPolicy"
	// reasonPermitted of the condition PodPermitted of a ShadowPod means that the limits permit the pod again.
	reasonPermitted = "Permitted"
	// reasonEvictionBlocked of events on a ShadowPod and on its local pod means that the eviction of a refused pod was
	// not allowed, for example by a PodDisruptionBudget. Adjust the budget; the eviction is retried.
	reasonEvictionBlocked = "EvictionBlocked"
)

// refusalOf returns why policy refuses the pod of a ShadowPod; empty if it permits the pod.
func refusalOf(policy *v1alpha1.PodPolicy, shadow *v1alpha1.ShadowPod) string {
	// A ShadowPod without a consumer was written by an administrator of the provider.
	if policy == nil || shadow.Status.ForeignCluster == "" {
		return ""
	}
	pod := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: shadow.Labels, Annotations: shadow.Annotations}, Spec: shadow.Spec.Pod,
	}
	errs := trust.Refusals(policy, pod, nil, field.NewPath("spec", "pod"), shadow.Status.ForeignCluster)
	if len(errs) == 0 {
		return ""
	}
	// The errors quote text that the peer wrote.
	return remote.Text(errs.ToAggregate().Error())
}

// reportRefusal sets the condition PodPermitted if it changed, emits an event if the running pod is refused, and
// reports whether it wrote the condition. The write enqueues the ShadowPod again.
func (r *Reconciler) reportRefusal(
	ctx context.Context, shadow *v1alpha1.ShadowPod, refused string, evict bool,
) (bool, error) {
	before := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodPermitted)
	wanted := metav1.Condition{
		Type: v1alpha1.ConditionPodPermitted, Status: metav1.ConditionTrue, Reason: reasonPermitted,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	}
	switch {
	case refused == "" && (before == nil || before.Status == metav1.ConditionTrue):
		return false, nil
	case refused != "":
		wanted.Status, wanted.Reason = metav1.ConditionFalse, reasonRefusedByPolicy
		wanted.Message = "The provider refuses the running pod, which keeps running: " + refused
		if evict {
			wanted.Message = "The provider refuses the running pod, and evicts it: " + refused
		}
		if before != nil && before.Status == wanted.Status && before.Message == wanted.Message {
			return false, nil
		}
	}
	changed := shadow.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, wanted)
	if err := r.commit(ctx, shadow, changed); err != nil {
		return false, err
	}
	if refused != "" {
		r.Events.Event(shadow, corev1.EventTypeWarning, reasonRefusedByPolicy, wanted.Message)
	}
	return true, nil
}

// evict requests the eviction of the pod of a ShadowPod, and returns the time after which to request it again.
func (r *Reconciler) evict(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) time.Duration {
	key := client.ObjectKeyFromObject(shadow).String()
	if r.evictions.IsInBackOffSinceUpdate(key, r.Clock.Now()) {
		return r.evictions.Get(key)
	}
	r.evictions.Next(key, r.Clock.Now())
	err := kit.Evict(ctx, r.Client, pod)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		r.Events.Eventf(shadow, corev1.EventTypeWarning, reasonEvictionBlocked,
			"Evicting the refused pod was not allowed: %s", remote.Text(err.Error()))
	}
	return r.evictions.Get(key)
}

// recordRefusal records in a ShadowPod whose pod does not exist that its pod failed, so that it is not created again.
// refused is the reason. On the consumer, the controller of the local pod then replaces the local pod.
func (r *Reconciler) recordRefusal(ctx context.Context, shadow *v1alpha1.ShadowPod, refused string) error {
	message := "The provider refuses the pod: " + refused
	changed := shadow.DeepCopy()
	changed.Status.Phase = corev1.PodFailed
	changed.Status.Pod = &corev1.PodStatus{Phase: corev1.PodFailed, Reason: reasonRefusedByPolicy, Message: message}
	if err := r.commit(ctx, shadow, changed); err != nil {
		return fmt.Errorf("recording that pod %s is refused: %w", client.ObjectKeyFromObject(shadow), err)
	}
	r.Events.Event(shadow, corev1.EventTypeWarning, reasonRefusedByPolicy, message)
	return nil
}
