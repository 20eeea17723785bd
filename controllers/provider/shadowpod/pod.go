// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

var shadowKind = v1alpha1.SchemeGroupVersion.WithKind("ShadowPod")

// podFor returns the pod to create for a ShadowPod in a remote namespace. The label with the consumer is
// copied from the namespace, never from labels that the peer wrote.
func podFor(shadow *v1alpha1.ShadowPod, namespace *corev1.Namespace) (*corev1.Pod, error) {
	// Kubernetes does not allow ephemeral containers in a new pod. sync adds them once the pod exists.
	shadow = shadow.DeepCopy()
	shadow.Spec.Pod.EphemeralContainers = nil
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shadow.Name,
			Namespace:       shadow.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, shadowKind)},
		},
		Spec: shadow.Spec.Pod,
	}
	if err := setMetadata(pod, shadow, namespace, true); err != nil {
		return nil, err
	}
	// Peers must not choose ServiceAccounts, priorities and nodes of this cluster.
	podspec.Reset(&pod.Spec)
	setRequests(pod.Spec.InitContainers)
	setRequests(pod.Spec.Containers)
	if finishes(pod) {
		// The finalizer keeps the pod until its end is recorded in the ShadowPod.
		pod.Finalizers = []string{v1alpha1.Finalizer}
	}
	return pod, nil
}

// setRequests sets requests of 0 for CPU and memory that a container does not request, because a
// ResourceQuota for them requires requests in each container.
func setRequests(containers []corev1.Container) {
	for i := range containers {
		wanted := &containers[i].Resources
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			_, requested := wanted.Requests[name]
			_, limited := wanted.Limits[name]
			if requested || limited {
				continue
			}
			if wanted.Requests == nil {
				wanted.Requests = corev1.ResourceList{}
			}
			wanted.Requests[name] = resource.Quantity{}
		}
	}
}

// setMetadata copies the labels and annotations of a ShadowPod to its pod, except those that the provider changed,
// removes keys that the ShadowPod had before, and records the state in annotationMirrored. resized states that the pod
// has the resources of the ShadowPod; otherwise the recorded hash of the resources stays.
func setMetadata(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, namespace *corev1.Namespace, resized bool) error {
	before := recordedOn(pod)
	pod.Labels = copyValues(pod.Labels, shadow.Labels, before.Labels, before.LabelHashes)
	pod.Labels[v1alpha1.LabelOrigin] = namespace.Labels[v1alpha1.LabelOrigin]
	pod.Labels[v1alpha1.LabelDestination] = namespace.Labels[v1alpha1.LabelDestination]
	pod.Annotations = copyValues(pod.Annotations, shadow.Annotations, before.Annotations, before.AnnotationHashes)
	state, err := mirroredOf(shadow)
	if err != nil {
		return err
	}
	if !resized {
		state.Resources = before.Resources
	}
	encoded, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("recording the state of shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	pod.Annotations[annotationMirrored] = string(encoded)
	return nil
}

// update copies those fields from a ShadowPod to its pod whose change Kubernetes permits. resized states that the pod
// has the resources of the ShadowPod: they are changed by the subresource resize, and not by update.
func update(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, namespace *corev1.Namespace, resized bool) error {
	if err := setMetadata(pod, shadow, namespace, resized); err != nil {
		return err
	}
	wanted := &shadow.Spec.Pod
	setImages(pod.Spec.Containers, wanted.Containers)
	setImages(pod.Spec.InitContainers, wanted.InitContainers)
	if wanted.ActiveDeadlineSeconds != nil {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(*wanted.ActiveDeadlineSeconds)
	}
	for _, toleration := range wanted.Tolerations {
		i := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			t.TolerationSeconds = toleration.TolerationSeconds
			return t == toleration
		})
		if i < 0 {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		} else {
			pod.Spec.Tolerations[i] = toleration
		}
	}
	return nil
}

// missingEphemeralContainers returns the ephemeral containers of a ShadowPod that its pod does not have.
func missingEphemeralContainers(pod *corev1.Pod, shadow *v1alpha1.ShadowPod) []corev1.EphemeralContainer {
	has := ephemeralNames(pod.Spec.EphemeralContainers)
	var missing []corev1.EphemeralContainer
	for _, container := range shadow.Spec.Pod.EphemeralContainers {
		if !slices.Contains(has, container.Name) {
			missing = append(missing, *container.DeepCopy())
		}
	}
	return missing
}

func setImages(containers, wanted []corev1.Container) {
	for i := range containers {
		j := slices.IndexFunc(wanted, func(w corev1.Container) bool { return w.Name == containers[i].Name })
		if j >= 0 {
			containers[i].Image = wanted[j].Image
		}
	}
}

// finishes reports whether a pod can finish by itself.
func finishes(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

// trim removes the fields of a cached pod that this controller does not read. It keeps the whole status of a
// finished pod, and otherwise only the phase and the allocated resources that exceed the requests.
func trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:                       pod.Name,
			Namespace:                  pod.Namespace,
			UID:                        pod.UID,
			ResourceVersion:            pod.ResourceVersion,
			OwnerReferences:            pod.OwnerReferences,
			Finalizers:                 pod.Finalizers,
			DeletionTimestamp:          pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy, NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, AllocatedResources: excess(pod)},
	}
	if recorded, ok := pod.Annotations[annotationMirrored]; ok {
		trimmed.Annotations = map[string]string{annotationMirrored: recorded}
	}
	if podspec.Finished(pod) && finishes(pod) {
		trimmed.Status = pod.Status
	}
	return trimmed, nil
}
