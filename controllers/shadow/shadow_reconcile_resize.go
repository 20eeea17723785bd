// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/controllers/remote"
)

// reasonResized is the reason of the condition PodResized when it is True.
const reasonResized = "Resized"

// resizes tells whether a shadow pod asks for other resources than its pod was
// given. Pods of an older version do not say what that was: it was what their
// shadow pods had from the beginning.
func resizes(shadow *v1alpha1.ShadowPod, given, gift mirrored) bool {
	return given.Resources != gift.Resources && (given.Resources != "" || shadow.Generation > 1)
}

// resize gives a pod the CPU and memory that its shadow pod asks for, if they are
// others than before. What the provider says against it is returned apart: all
// else that changed does not wait for that.
func (c *Controller) resize(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (resized *corev1.Pod, refused, err error) {
	gift, err := giftOf(shadow)
	if err != nil {
		return nil, nil, err
	}
	resized = pod.DeepCopy()
	containers := podspec.Resize(resized.Spec.Containers, shadow.Spec.Pod.Containers)
	sidecars := podspec.Resize(resized.Spec.InitContainers, shadow.Spec.Pod.InitContainers)
	if !resizes(shadow, givenTo(pod), gift) || !containers && !sidecars {
		return pod, nil, nil
	}
	resized, err = c.kube.CoreV1().Pods(pod.Namespace).UpdateResize(ctx, pod.Name, resized, metav1.UpdateOptions{})
	if err != nil && remote.Refused(err) {
		return pod, err, nil
	}
	return resized, nil, err
}

// waitsToResize tells whether nothing has changed since the provider refused the
// resources that a shadow pod asks for, and it is not time to try again.
func (c *Controller) waitsToResize(key string, shadow *v1alpha1.ShadowPod) bool {
	condition := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodResized)
	return condition != nil && condition.Status == metav1.ConditionFalse && condition.ObservedGeneration == shadow.Generation &&
		c.backoff.IsInBackOffSinceUpdate(key, c.clock.Now())
}

// resizeRefused says why a pod cannot have other resources.
func (c *Controller) resizeRefused(ctx context.Context, shadow *v1alpha1.ShadowPod, refused error) error {
	c.changeRefused(shadow, refused)
	changed := shadow.DeepCopy()
	c.setResized(changed, metav1.ConditionFalse, v1alpha1.ReasonProviderRefused, remote.Text(refused.Error()))
	return c.commit(ctx, shadow, changed)
}

// settle says that a pod has the resources that its shadow pod asks for, if that
// was told otherwise, and that it has given back what it had before, when its
// kubelet says so.
func (c *Controller) settle(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) error {
	refused := meta.IsStatusConditionFalse(shadow.Status.Conditions, v1alpha1.ConditionPodResized)
	givenBack := shadow.Status.AllocatedResources != nil && pod.Status.AllocatedResources == nil
	if givenBack {
		var err error
		if givenBack, err = c.hasGivenBack(ctx, shadow, pod); err != nil {
			return err
		}
	}
	if !refused && !givenBack {
		return nil
	}
	changed := shadow.DeepCopy()
	if refused {
		c.setResized(changed, metav1.ConditionTrue, reasonResized, "")
	}
	if givenBack {
		changed.Status.AllocatedResources = nil
	}
	return c.commit(ctx, shadow, changed)
}

// hasGivenBack tells whether a pod takes what its shadow pod asks for, and no
// more. What counts is given to others then, so the cache does not do: it may not
// know yet how large the pod was made meanwhile.
func (c *Controller) hasGivenBack(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (bool, error) {
	live, err := c.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	gift, err := giftOf(shadow)
	if err != nil {
		return false, err
	}
	return live.UID == pod.UID && !resizes(shadow, givenTo(live), gift) && notGivenBack(live) == nil, nil
}

func (c *Controller) setResized(shadow *v1alpha1.ShadowPod, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&shadow.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPodResized, Status: status, Reason: reason, Message: message,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	})
}

// notGivenBack is what a pod takes beyond what it asks for now, since its kubelet
// has not resized it yet; nil if nothing.
func notGivenBack(pod *corev1.Pod) corev1.ResourceList {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return nil
	}
	allocated := pod.Spec
	allocated.Containers = allocatedTo(pod.Spec.Containers, pod.Status.ContainerStatuses)
	allocated.InitContainers = allocatedTo(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	if more := quota.More(quota.Requests(&pod.Spec), quota.Requests(&allocated)); len(more) > 0 {
		return more
	}
	return nil
}

// allocatedTo are containers that ask for what they have been allocated.
func allocatedTo(containers []corev1.Container, statuses []corev1.ContainerStatus) []corev1.Container {
	allocated := slices.Clone(containers)
	for i := range allocated {
		j := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == allocated[i].Name })
		if j >= 0 && statuses[j].AllocatedResources != nil {
			allocated[i].Resources.Requests = statuses[j].AllocatedResources
		}
	}
	return allocated
}
