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

// resizes reports whether a ShadowPod requests resources that differ from the ones recorded on its pod. recorded is the
// state in the annotation of the pod, and state the state of the ShadowPod. The annotation of a pod that an older
// version of Liqo Federation created has no hash of the resources: the pod has the resources of the first generation of
// the ShadowPod.
func resizes(shadow *v1alpha1.ShadowPod, recorded, state mirrored) bool {
	return recorded.Resources != state.Resources && (recorded.Resources != "" || shadow.Generation > 1)
}

// resize sets the CPU and memory of a pod to the values in its ShadowPod, if they changed. It returns a
// refusal by the API server separately from other errors, because a refusal does not delay other changes.
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

// waitsToResize reports whether the provider refused the resources that the ShadowPod requests, and the time
// of the next attempt has not come.
func (r *Reconciler) waitsToResize(shadow *v1alpha1.ShadowPod) bool {
	condition := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodResized)
	return condition != nil && condition.Status == metav1.ConditionFalse &&
		condition.ObservedGeneration == shadow.Generation &&
		r.backoff.IsInBackOffSinceUpdate(client.ObjectKeyFromObject(shadow).String(), r.Clock.Now())
}

// resizeRefused sets the condition PodResized to False, with the reason why the provider refused the resize.
func (r *Reconciler) resizeRefused(ctx context.Context, shadow *v1alpha1.ShadowPod, refused error) error {
	r.changeRefused(shadow, refused)
	changed := shadow.DeepCopy()
	r.setResized(changed, metav1.ConditionFalse, v1alpha1.ReasonProviderRefused, remote.Text(refused.Error()))
	return r.commit(ctx, shadow, changed)
}

// reportResized sets the condition PodResized to True if it was False, and removes the allocated resources
// from the status of the ShadowPod once the kubelet has resized the pod.
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

// releasedExcess reports whether a pod has no more resources allocated than its ShadowPod requests. It reads
// the API server, because other pods may use the released quota at once, and a cached pod may be outdated.
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

// excess returns the resources that are allocated to a pod beyond its requests, because its kubelet has not
// resized it yet; nil if there are none.
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

// withAllocated returns copies of containers whose requests are the resources allocated to them.
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
