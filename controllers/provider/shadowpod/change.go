// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// sync applies changes of a ShadowPod to its pod. It returns the time after which to reconcile again, or zero.
func (r *Reconciler) sync(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	key := client.ObjectKeyFromObject(shadow)
	state, err := mirroredOf(shadow)
	if err != nil {
		return 0, err
	}
	recorded := recordedOn(pod)
	switch {
	case recorded.Hash != state.Hash:
	case !resizes(shadow, recorded, state):
		return 0, r.reportResized(ctx, shadow, pod)
	case r.waitsToResize(shadow):
		return r.backoff.Get(key.String()), nil
	}
	namespace, err := r.remoteNamespace(ctx, shadow)
	if err != nil || namespace == nil {
		return 0, err
	}
	// The cached pod lacks most fields of its spec.
	pod, err = read(ctx, r.Live, key, &corev1.Pod{})
	if err != nil || pod == nil {
		return 0, err
	}
	if !metav1.IsControlledBy(pod, shadow) {
		return kit.CacheLag, nil
	}
	return r.write(ctx, shadow, namespace, pod)
}

// write updates a pod from its ShadowPod. It writes ephemeral containers and resources first, because the last write
// records in an annotation that the pod is up to date. If the API server refuses a write, write returns the time
// after which to reconcile again, otherwise zero.
func (r *Reconciler) write(
	ctx context.Context, shadow *v1alpha1.ShadowPod, namespace *corev1.Namespace, pod *corev1.Pod,
) (time.Duration, error) {
	key := client.ObjectKeyFromObject(shadow)
	pod, err := r.debug(ctx, shadow, pod)
	var refused error
	if err == nil {
		pod, refused, err = r.resize(ctx, shadow, pod)
	}
	if err == nil {
		changed := pod.DeepCopy()
		if err := update(changed, shadow, namespace, refused == nil); err != nil {
			return 0, err
		}
		err = r.Client.Update(ctx, changed)
	}
	switch {
	case err == nil && refused != nil:
		return r.retry(key), r.resizeRefused(ctx, shadow, refused)
	case err == nil, apierrors.IsNotFound(err):
		return 0, nil
	case remote.Refused(err):
		r.changeRefused(shadow, err)
		return r.retry(key), nil
	}
	return 0, fmt.Errorf("updating pod %s: %w", key, err)
}

// debug adds missing ephemeral containers to a pod, each by a separate request. A container that is
// refused, for example by Pod Security, cannot be removed from the ShadowPod, so it must not prevent other
// changes.
func (r *Reconciler) debug(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (*corev1.Pod, error) {
	for _, container := range missingEphemeralContainers(pod, shadow) {
		debugged := pod.DeepCopy()
		debugged.Spec.EphemeralContainers = append(debugged.Spec.EphemeralContainers, container)
		err := r.Client.SubResource("ephemeralcontainers").Update(ctx, debugged)
		switch {
		case err == nil:
			pod = debugged
		case remote.Refused(err):
			r.changeRefused(shadow, fmt.Errorf("adding ephemeral container %s: %w", container.Name, err))
		default:
			return nil, err
		}
	}
	return pod, nil
}

// changeRefused emits an event about a change that the provider's API server refused. The message may
// quote text that the peer wrote.
func (r *Reconciler) changeRefused(shadow *v1alpha1.ShadowPod, err error) {
	r.Events.Eventf(shadow, corev1.EventTypeWarning, reasonFailedUpdate, "The provider refused the change of the pod: %s",
		remote.Text(err.Error()))
}
