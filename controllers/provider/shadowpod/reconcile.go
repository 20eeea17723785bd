// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Reconcile creates, updates or deletes the pod of one ShadowPod.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, request.NamespacedName))
}

func (r *Reconciler) reconcile(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	pod, err := read(ctx, r.pods, key, &corev1.Pod{})
	if err != nil {
		return 0, err
	}
	shadow, err := read(ctx, r.Client, key, &v1alpha1.ShadowPod{})
	if err != nil {
		return 0, err
	}
	if shadow == nil {
		r.backoff.DeleteEntry(key.String())
		r.evictions.DeleteEntry(key.String())
		return 0, r.releaseDeleted(ctx, pod)
	}
	limits, err := r.Placer.Limits(ctx, shadow.Status.ForeignCluster)
	if err != nil {
		return 0, err
	}
	refused := refusalOf(limits.Policy, shadow)
	// The labels and annotations that WithoutLocal removes stay on the consumer, so the following steps must
	// not use them.
	trust.WithoutLocal(limits.Policy, shadow)
	if pod == nil && r.created.Pending(key) {
		return kit.CacheLag, nil
	}
	if pod != nil && !metav1.IsControlledBy(pod, shadow) {
		return r.otherPod(ctx, shadow, pod)
	}
	switch {
	case !shadow.DeletionTimestamp.IsZero():
		return r.delete(ctx, shadow, pod)
	case shadow.Status.Phase != "":
		return 0, r.releaseDeleted(ctx, pod)
	case pod == nil && refused != "" && limits.Evict:
		return 0, r.recordRefusal(ctx, shadow, refused)
	case pod == nil:
		return r.create(ctx, shadow, trust.RuntimeClass(limits.Policy))
	case podspec.Finished(pod) && finishes(pod):
		return 0, r.recordEnd(ctx, shadow, pod)
	case !pod.DeletionTimestamp.IsZero():
		return r.awaitEnd(ctx, pod)
	case podspec.Finished(pod):
		return 0, r.replace(ctx, pod)
	}
	if reported, err := r.reportRefusal(ctx, shadow, refused, limits.Evict); reported || err != nil {
		return 0, err
	}
	after, err := r.sync(ctx, shadow, pod)
	if err != nil || refused == "" || !limits.Evict {
		return after, err
	}
	return kit.Sooner(after, r.evict(ctx, shadow, pod)), nil
}

// read returns an object; nil if it does not exist.
func read[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key client.ObjectKey, object P) (P, error) {
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return object, nil
}

// recordEnd writes the final status of a pod to its ShadowPod, once. If the API server refuses the status, for example
// because it is too large, recordEnd writes only how the pod and its containers ended.
func (r *Reconciler) recordEnd(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) error {
	changed := shadow.DeepCopy()
	changed.Status.Phase = pod.Status.Phase
	changed.Status.Pod = pod.Status.DeepCopy()
	err := r.commit(ctx, shadow, changed)
	if remote.Refused(err) {
		changed.Status.Pod = endOf(&pod.Status)
		err = r.commit(ctx, shadow, changed)
	}
	return err
}

// endOf returns the fields of a pod's status that state how the pod and its containers ended, and whether
// the pod was disrupted.
func endOf(status *corev1.PodStatus) *corev1.PodStatus {
	ends := func(all []corev1.ContainerStatus) (ended []corev1.ContainerStatus) {
		for _, s := range all {
			if t := s.State.Terminated; t != nil {
				ended = append(ended, corev1.ContainerStatus{
					Name: s.Name, RestartCount: s.RestartCount,
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
						ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt,
					}},
				})
			}
		}
		return ended
	}
	disrupted := slices.DeleteFunc(slices.Clone(status.Conditions), func(c corev1.PodCondition) bool {
		return c.Type != corev1.DisruptionTarget
	})
	return &corev1.PodStatus{
		Phase: status.Phase, Reason: status.Reason, StartTime: status.StartTime,
		PodIP: status.PodIP, PodIPs: status.PodIPs, Conditions: disrupted,
		InitContainerStatuses: ends(status.InitContainerStatuses), ContainerStatuses: ends(status.ContainerStatuses),
	}
}

// awaitEnd handles a pod that is being deleted. It waits until the pod has ended. For a force deleted pod, it waits
// at most for the time abandoned, because the kubelet may never report the end. It returns the time after which to
// reconcile again; zero means that only an event causes it.
func (r *Reconciler) awaitEnd(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if !slices.Contains(pod.Finalizers, v1alpha1.Finalizer) || ptr.Deref(pod.DeletionGracePeriodSeconds, 1) > 0 {
		return 0, nil
	}
	if wait := pod.DeletionTimestamp.Add(abandoned).Sub(r.Clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, r.removeFinalizer(ctx, pod)
}

// replace deletes a pod with restart policy Always that its kubelet ended. Another pod is created after its
// deletion, with back-off.
func (r *Reconciler) replace(ctx context.Context, pod *corev1.Pod) error {
	r.backoff.Next(client.ObjectKeyFromObject(pod).String(), r.Clock.Now())
	return kit.Delete(ctx, r.Client, pod)
}

// otherPod handles a pod with the name of a ShadowPod that was not created for it: the garbage collector deletes a
// pod of an earlier ShadowPod with the same name, and any other pod is reported as a conflict. It returns the time
// after which to reconcile again, or zero.
func (r *Reconciler) otherPod(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	owner := metav1.GetControllerOf(pod)
	if owner != nil && owner.Kind == shadowKind.Kind && owner.APIVersion == shadowKind.GroupVersion().String() {
		return 0, r.releaseDeleted(ctx, pod)
	}
	if !shadow.DeletionTimestamp.IsZero() {
		return r.delete(ctx, shadow, nil)
	}
	if shadow.Status.Phase != "" {
		return 0, nil
	}
	return r.conflict(ctx, shadow)
}

// setCreated sets the condition PodCreated. It reports success only if a failure was reported before.
func (r *Reconciler) setCreated(
	ctx context.Context, shadow *v1alpha1.ShadowPod, status metav1.ConditionStatus, reason, message string,
) error {
	reported := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodCreated) != nil
	if status == metav1.ConditionTrue && !reported {
		return nil
	}
	changed := shadow.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPodCreated, Status: status, Reason: reason, Message: message,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	return r.commit(ctx, shadow, changed)
}

// commit writes the changes of a ShadowPod. It succeeds if the ShadowPod does not exist any more.
func (r *Reconciler) commit(ctx context.Context, shadow, changed *v1alpha1.ShadowPod) error {
	_, err := kit.Commit(ctx, r.Client, shadow, changed)
	return client.IgnoreNotFound(err)
}
