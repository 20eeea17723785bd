// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Reasons of events on a ShadowPod and on its local pod.
const (
	// reasonFailedCreate means that the provider refuses the pod. The message has the cause; the creation
	// is retried.
	reasonFailedCreate = "FailedCreate"
	// reasonFailedUpdate means that the provider refuses a change of the pod. The message has the cause.
	reasonFailedUpdate = "FailedUpdate"
)

// Reasons of the condition PodCreated of a ShadowPod.
const (
	// reasonCreated means that the remote pod exists.
	reasonCreated = "Created"
	// reasonConflict means that a pod of this name exists that was not created for the ShadowPod; that pod is
	// not changed. Delete or rename one of the two.
	reasonConflict = "NameConflict"
	// reasonNotRemote means that the namespace of the ShadowPod has lost its labels; nothing runs in it. Restore the
	// labels of the namespace.
	reasonNotRemote = "NotARemoteNamespace"
)

const (
	conflictMessage = "The provider has a pod with this name that was not created for a shadow pod, " +
		"and does not change it."
	notRemoteMessage = "The namespace is not the remote namespace of a consumer, so no pod is created in it."
)

// create creates the pod of a ShadowPod. class is the RuntimeClass of the pod if the ShadowPod specifies none. If the
// API server refuses the pod, or the namespace is not a remote namespace, create reports that in the condition
// PodCreated, and returns the time after which to try again.
func (r *Reconciler) create(
	ctx context.Context, shadow *v1alpha1.ShadowPod, class *string,
) (time.Duration, error) {
	key := client.ObjectKeyFromObject(shadow)
	if r.backoff.IsInBackOffSinceUpdate(key.String(), r.Clock.Now()) {
		return r.backoff.Get(key.String()), nil
	}
	namespace, err := r.remoteNamespace(ctx, shadow)
	if err != nil {
		return 0, err
	}
	if namespace == nil {
		return r.retry(key), r.setCreated(ctx, shadow, metav1.ConditionFalse, reasonNotRemote, notRemoteMessage)
	}
	pod, err := podFor(shadow, namespace)
	if err != nil {
		return 0, err
	}
	pod.Spec.RuntimeClassName = cmp.Or(pod.Spec.RuntimeClassName, class)
	place, err := r.Placer.Place(ctx, namespace.Labels[v1alpha1.LabelForeignCluster], shadow.Spec.OfferedNode)
	if err != nil {
		return 0, err
	}
	requireNodes(&pod.Spec, place.Labels)
	preferNode(&pod.Spec, place.Node)
	err = r.Client.Create(ctx, pod)
	switch {
	case err == nil:
		r.created.Expect(pod)
		return 0, r.setCreated(ctx, shadow, metav1.ConditionTrue, reasonCreated, "")
	case apierrors.IsAlreadyExists(err):
		return r.alreadyExists(ctx, shadow, namespace)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return 0, nil
	case remote.Refused(err):
		return r.refused(ctx, shadow, err)
	}
	return 0, fmt.Errorf("creating pod %s: %w", key, err)
}

// remoteNamespace returns the namespace of a ShadowPod; nil if it is not a remote namespace.
func (r *Reconciler) remoteNamespace(ctx context.Context, shadow *v1alpha1.ShadowPod) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: shadow.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace of shadow pod %s: %w", client.ObjectKeyFromObject(shadow), err)
	}
	if namespace.Labels[v1alpha1.LabelRole] != v1alpha1.RoleRemoteNamespace {
		return nil, nil
	}
	return namespace, nil
}

// retry increases the back-off of a ShadowPod, and returns it as the time after which to reconcile again.
func (r *Reconciler) retry(key client.ObjectKey) time.Duration {
	r.backoff.Next(key.String(), r.Clock.Now())
	return r.backoff.Get(key.String())
}

func (r *Reconciler) refused(ctx context.Context, shadow *v1alpha1.ShadowPod, err error) (time.Duration, error) {
	// The error may quote text that the peer wrote.
	message := remote.Refusal(err, remote.MaxText)
	after := r.retry(client.ObjectKeyFromObject(shadow))
	r.Events.Eventf(shadow, corev1.EventTypeWarning, reasonFailedCreate, "The provider refused the pod: %s", message)
	return after, r.setCreated(ctx, shadow, metav1.ConditionFalse, v1alpha1.ReasonProviderRefused, message)
}

// alreadyExists handles a pod with the name of a ShadowPod that exists but is not in the cache: it updates a pod of
// the ShadowPod that lost the label which the cache selects, waits for the cache if the pod was created a moment ago,
// and reports a conflict if the pod belongs to another client. It returns the time after which to reconcile again, or
// zero.
func (r *Reconciler) alreadyExists(
	ctx context.Context, shadow *v1alpha1.ShadowPod, namespace *corev1.Namespace,
) (time.Duration, error) {
	key, pod := client.ObjectKeyFromObject(shadow), &corev1.Pod{}
	if err := r.Live.Get(ctx, key, pod); err != nil {
		return 0, fmt.Errorf("reading pod %s: %w", key, err)
	}
	if !metav1.IsControlledBy(pod, shadow) {
		return r.conflict(ctx, shadow)
	}
	if _, labelled := pod.Labels[v1alpha1.LabelOrigin]; labelled {
		r.created.Expect(pod)
		return kit.CacheLag, nil
	}
	return r.write(ctx, shadow, namespace, pod)
}

func (r *Reconciler) conflict(ctx context.Context, shadow *v1alpha1.ShadowPod) (time.Duration, error) {
	after := r.retry(client.ObjectKeyFromObject(shadow))
	condition := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodCreated)
	if condition == nil || condition.Reason != reasonConflict {
		r.Events.Event(shadow, corev1.EventTypeWarning, reasonConflict, conflictMessage)
	}
	return after, r.setCreated(ctx, shadow, metav1.ConditionFalse, reasonConflict, conflictMessage)
}
