// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/controllers/remote"
)

// reasonResized of the condition PodResized of a ShadowPod means that the remote pod has the requested size.
const reasonResized = "Resized"

// resizes reports whether a shadow pod requests other resources than are recorded on its pod.
// Pods of an older version have no record: they have the first ones of their shadow pods.
func resizes(shadow *v1alpha1.ShadowPod, recorded, state mirrored) bool {
	return recorded.Resources != state.Resources && (recorded.Resources != "" || shadow.Generation > 1)
}

// resize sets the CPU and memory of a pod to those that its shadow pod requests, if they
// changed. A refusal by the provider is returned separately: no other change waits for it.
func (r *Reconciler) resize(
	ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod,
) (resized *corev1.Pod, refused, err error) {
	state, err := mirroredOf(shadow)
	if err != nil {
		return nil, nil, err
	}
	resized = pod.DeepCopy()
	containers := podspec.Resize(resized.Spec.Containers, shadow.Spec.Pod.Containers)
	sidecars := podspec.Resize(resized.Spec.InitContainers, shadow.Spec.Pod.InitContainers)
	if !resizes(shadow, recordedOn(pod), state) || !containers && !sidecars {
		return pod, nil, nil
	}
	err = r.Client.SubResource("resize").Update(ctx, resized)
	if err != nil && remote.Refused(err) {
		return pod, err, nil
	}
	return resized, nil, err
}

// waitsToResize reports whether the provider refused the resources that a shadow pod still
// requests, and the next attempt is not due.
func (r *Reconciler) waitsToResize(shadow *v1alpha1.ShadowPod) bool {
	condition := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodResized)
	return condition != nil && condition.Status == metav1.ConditionFalse &&
		condition.ObservedGeneration == shadow.Generation &&
		r.backoff.IsInBackOffSinceUpdate(client.ObjectKeyFromObject(shadow).String(), r.Clock.Now())
}

// resizeRefused reports why a pod cannot have other resources.
func (r *Reconciler) resizeRefused(ctx context.Context, shadow *v1alpha1.ShadowPod, refused error) error {
	r.changeRefused(shadow, refused)
	changed := shadow.DeepCopy()
	r.setResized(changed, metav1.ConditionFalse, v1alpha1.ReasonProviderRefused, remote.Text(refused.Error()))
	return r.commit(ctx, shadow, changed)
}

// reportResized reports that a pod has the resources that its shadow pod requests, if the
// opposite was reported, and that it does not have its former ones any more, once its kubelet
// has resized it.
func (r *Reconciler) reportResized(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) error {
	wasRefused := meta.IsStatusConditionFalse(shadow.Status.Conditions, v1alpha1.ConditionPodResized)
	released := shadow.Status.AllocatedResources != nil && pod.Status.AllocatedResources == nil
	if released {
		var err error
		if released, err = r.releasedExcess(ctx, shadow, pod); err != nil {
			return err
		}
	}
	if !wasRefused && !released {
		return nil
	}
	changed := shadow.DeepCopy()
	if wasRefused {
		r.setResized(changed, metav1.ConditionTrue, reasonResized, "")
	}
	if released {
		changed.Status.AllocatedResources = nil
	}
	return r.commit(ctx, shadow, changed)
}

// releasedExcess reports whether a pod has no more than its shadow pod requests. The quota of
// the difference is available to other pods from then on, so the cache is not enough: the pod
// may have been enlarged in the meantime.
func (r *Reconciler) releasedExcess(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (bool, error) {
	live, err := read(ctx, r.Live, client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if err != nil || live == nil {
		return false, err
	}
	state, err := mirroredOf(shadow)
	if err != nil {
		return false, err
	}
	return live.UID == pod.UID && !resizes(shadow, recordedOn(live), state) && excess(live) == nil, nil
}

func (r *Reconciler) setResized(shadow *v1alpha1.ShadowPod, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&shadow.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPodResized, Status: status, Reason: reason, Message: message,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
}

// excess returns what a pod has allocated beyond its requests, since its kubelet has not
// resized it yet; nil if nothing.
func excess(pod *corev1.Pod) corev1.ResourceList {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return nil
	}
	allocated := pod.Spec
	allocated.Containers = withAllocated(pod.Spec.Containers, pod.Status.ContainerStatuses)
	allocated.InitContainers = withAllocated(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	if more := quota.More(quota.Requests(&pod.Spec), quota.Requests(&allocated)); len(more) > 0 {
		return more
	}
	return nil
}

// withAllocated returns containers with requests of what is allocated to them.
func withAllocated(containers []corev1.Container, statuses []corev1.ContainerStatus) []corev1.Container {
	allocated := slices.Clone(containers)
	for i := range allocated {
		j := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == allocated[i].Name })
		if j >= 0 && statuses[j].AllocatedResources != nil {
			allocated[i].Resources.Requests = statuses[j].AllocatedResources
		}
	}
	return allocated
}
