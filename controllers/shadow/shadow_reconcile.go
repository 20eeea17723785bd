// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/remote"
)

// reconcile brings one shadow pod and the pod of its name together.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		pod, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	shadow, err := c.shadows.ShadowPods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.backoff.DeleteEntry(key.String())
		return 0, c.letGo(ctx, pod)
	}
	if err != nil {
		return 0, err
	}
	if pod == nil && c.expected(key) {
		return cacheLag, nil
	}
	if pod != nil && !metav1.IsControlledBy(pod, shadow) {
		return c.inTheWay(ctx, shadow, pod)
	}
	switch {
	case !shadow.DeletionTimestamp.IsZero():
		return c.remove(ctx, shadow, pod)
	case shadow.Status.Phase != "":
		return 0, c.letGo(ctx, pod)
	case pod == nil:
		return c.create(ctx, key, shadow)
	case podspec.Finished(pod) && finishes(pod):
		return 0, c.recordEnd(ctx, shadow, pod)
	case !pod.DeletionTimestamp.IsZero():
		return c.awaitEnd(ctx, pod)
	case podspec.Finished(pod):
		return 0, c.replace(ctx, key, pod)
	}
	return c.sync(ctx, key, shadow, pod)
}

// remove ends the pod with the grace period of the deletion, and lets the shadow
// pod go when the pod is gone. How a pod ends that can finish is written down
// first.
func (c *Controller) remove(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	if pod == nil {
		return c.release(ctx, shadow)
	}
	grace := graceOf(shadow)
	if pod.DeletionTimestamp.IsZero() || grace != nil && *grace < ptr.Deref(pod.DeletionGracePeriodSeconds, 0) {
		if err := c.deletePod(ctx, pod, grace); err != nil {
			return 0, err
		}
	}
	switch {
	case !finishes(pod), shadow.Status.Phase != "":
		return 0, c.dropFinalizer(ctx, pod)
	case podspec.Finished(pod):
		err := c.recordEnd(ctx, shadow, pod)
		// What is forbidden now may be allowed in a moment.
		if final := remote.Refused(err) && !apierrors.IsForbidden(err); !final {
			return 0, err
		}
		utilruntime.HandleErrorWithContext(ctx, err, "How the pod ended cannot be written down, and it goes without", "pod", klog.KObj(pod))
		return 0, c.dropFinalizer(ctx, pod)
	case pod.DeletionTimestamp.IsZero():
		// Whether it has a node is known for good once it is being deleted.
		return 0, nil
	case pod.Spec.NodeName == "":
		return 0, c.dropFinalizer(ctx, pod)
	}
	return c.awaitEnd(ctx, pod)
}

// graceOf is how long the pod of a shadow pod that is being deleted may take to
// end, in seconds; nil is its own time. It is never removed by force, nor if its
// own time is none: it would run and not count.
func graceOf(shadow *v1alpha1.ShadowPod) *int64 {
	switch {
	case ptr.Deref(shadow.DeletionGracePeriodSeconds, 0) > 0:
		return shadow.DeletionGracePeriodSeconds
	case ptr.Deref(shadow.Spec.Pod.TerminationGracePeriodSeconds, 1) <= 0:
		return ptr.To[int64](1)
	}
	return nil
}

// release lets a shadow pod go whose pod is gone. One that tells how that ended
// stays until the consumer says, with a deletion without a grace period, that it
// has read it, and not for long.
func (c *Controller) release(ctx context.Context, shadow *v1alpha1.ShadowPod) (time.Duration, error) {
	seconds := ptr.Deref(shadow.DeletionGracePeriodSeconds, 0)
	switch {
	case len(shadow.Finalizers) == 0:
		// An API server that knows of no grace period let go of it, and left it there.
		return 0, c.deleteShadow(ctx, shadow, 0)
	case !slices.Contains(shadow.Finalizers, v1alpha1.Finalizer):
		return 0, nil
	case shadow.Status.Phase != "" && seconds > 1:
		// The rest of it is nobody's to wait for.
		return unread, c.deleteShadow(ctx, shadow, 1)
	case shadow.Status.Phase != "" && seconds > 0:
		if wait := shadow.DeletionTimestamp.Add(unread).Sub(c.clock.Now()); wait > 0 {
			return wait, nil
		}
	}
	// Nothing else of it changes, so nothing else is compared.
	held := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: shadow.Namespace, Name: shadow.Name, UID: shadow.UID, ResourceVersion: shadow.ResourceVersion, Finalizers: shadow.Finalizers,
	}}
	released := held.DeepCopy()
	released.Finalizers = slices.DeleteFunc(released.Finalizers, func(name string) bool { return name == v1alpha1.Finalizer })
	return 0, c.commit(ctx, held, released)
}

// deleteShadow deletes a shadow pod, maybe once more, with a grace period in
// seconds.
func (c *Controller) deleteShadow(ctx context.Context, shadow *v1alpha1.ShadowPod, grace int64) error {
	options := metav1.NewPreconditionDeleteOptions(string(shadow.UID))
	options.GracePeriodSeconds = &grace
	err := c.federation.FederationV1alpha1().ShadowPods(shadow.Namespace).Delete(ctx, shadow.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	return nil
}

// deletePod deletes a pod with a grace period in seconds, or with its own.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
	options.GracePeriodSeconds = grace
	err := c.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// letGo releases a pod that somebody deletes and whose end is known, or of no
// interest any more.
func (c *Controller) letGo(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil || pod.DeletionTimestamp.IsZero() {
		return nil
	}
	return c.dropFinalizer(ctx, pod)
}

func (c *Controller) dropFinalizer(ctx context.Context, pod *corev1.Pod) error {
	if !slices.Contains(pod.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	// The list may hold finalizers of others: only ours is taken out of it.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, v1alpha1.Finalizer)
	_, err := c.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("release pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// recordEnd writes down how a pod ended: once, and for good. Of a status that is
// refused, as one that is too large, it writes what matters.
func (c *Controller) recordEnd(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) error {
	changed := shadow.DeepCopy()
	changed.Status.Phase = pod.Status.Phase
	changed.Status.Pod = pod.Status.DeepCopy()
	err := c.commit(ctx, shadow, changed)
	if remote.Refused(err) {
		changed.Status.Pod = essence(&pod.Status)
		err = c.commit(ctx, shadow, changed)
	}
	return err
}

// essence is of the status of a pod how it and its containers ended, and whether
// it was made to.
func essence(status *corev1.PodStatus) *corev1.PodStatus {
	ends := func(all []corev1.ContainerStatus) (ended []corev1.ContainerStatus) {
		for _, s := range all {
			if t := s.State.Terminated; t != nil {
				ended = append(ended, corev1.ContainerStatus{Name: s.Name, Image: s.Image, RestartCount: s.RestartCount, State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt},
				}})
			}
		}
		return ended
	}
	disrupted := slices.Clone(status.Conditions)
	disrupted = slices.DeleteFunc(disrupted, func(c corev1.PodCondition) bool { return c.Type != corev1.DisruptionTarget })
	return &corev1.PodStatus{
		Phase: status.Phase, Reason: status.Reason, StartTime: status.StartTime, PodIP: status.PodIP, PodIPs: status.PodIPs, Conditions: disrupted,
		InitContainerStatuses: ends(status.InitContainerStatuses), ContainerStatuses: ends(status.ContainerStatuses),
	}
}

// awaitEnd waits for a pod that somebody else deletes to tell how it ended.
// One that was deleted by force may never tell, for its node may be dead.
func (c *Controller) awaitEnd(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if !slices.Contains(pod.Finalizers, v1alpha1.Finalizer) || ptr.Deref(pod.DeletionGracePeriodSeconds, 1) > 0 {
		return 0, nil
	}
	if wait := pod.DeletionTimestamp.Add(abandoned).Sub(c.clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, c.dropFinalizer(ctx, pod)
}

// replace removes a pod that the kubelet gave up though it should run for
// ever. When it is gone, and not too soon, another one is made.
func (c *Controller) replace(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) error {
	c.backoff.Next(key.String(), c.clock.Now())
	return c.deletePod(ctx, pod, nil)
}

// inTheWay deals with a pod of the name that is not this shadow pod's. One of
// a shadow pod that is gone goes too, with the garbage.
func (c *Controller) inTheWay(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == shadowKind.Kind && owner.APIVersion == shadowKind.GroupVersion().String() {
		return 0, c.letGo(ctx, pod)
	}
	if !shadow.DeletionTimestamp.IsZero() {
		return c.remove(ctx, shadow, nil)
	}
	if shadow.Status.Phase != "" {
		return 0, nil
	}
	return c.conflict(ctx, cache.MetaObjectToName(shadow), shadow)
}

// setCreated says whether the pod could be created. It is said for the first
// time when it could not.
func (c *Controller) setCreated(ctx context.Context, shadow *v1alpha1.ShadowPod, status metav1.ConditionStatus, reason, message string) error {
	if status == metav1.ConditionTrue && meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodCreated) == nil {
		return nil
	}
	changed := shadow.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPodCreated, Status: status, Reason: reason, Message: message,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	})
	return c.commit(ctx, shadow, changed)
}

func (c *Controller) commit(ctx context.Context, shadow, changed *v1alpha1.ShadowPod) error {
	_, err := commit.Commit(ctx, c.federation.FederationV1alpha1().ShadowPods(shadow.Namespace), shadow, changed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
