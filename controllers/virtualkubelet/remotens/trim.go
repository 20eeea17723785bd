// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// TrimLocalPod drops the fields of a local pod that are not translated to its shadow pod, and shares memory of equal
// fields among pods.
func TrimLocalPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	meta := shared(metav1.ObjectMeta{Labels: pod.Labels, OwnerReferences: pod.OwnerReferences})
	pod.Labels, pod.OwnerReferences = meta.Labels, meta.OwnerReferences
	spec := shared(corev1.PodSpec{Tolerations: pod.Spec.Tolerations, Affinity: pod.Spec.Affinity})
	pod.Spec.Tolerations, pod.Spec.Affinity = spec.Tolerations, spec.Affinity
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		volume.VolumeSource = shared(volume.VolumeSource)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			// Volume mounts have names that differ from pod to pod, so containers with them would never be equal.
			mounts := containers[i].VolumeMounts
			containers[i].VolumeMounts = nil
			containers[i] = shared(containers[i])
			containers[i].VolumeMounts = mounts
		}
	}
	pod.Status.Conditions = conditions(pod.Status.Conditions)
	return pod, nil
}

// TrimRemotePod returns a translate.RemotePod with the fields of a remote pod that the status of the local pod needs.
func TrimRemotePod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	trimmed := &translate.RemotePod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			Name:            pod.Name,
			UID:             pod.UID,
			ResourceVersion: pod.ResourceVersion,

			DeletionTimestamp:          pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		OriginUID: translate.OriginUID(pod),
		Status:    pod.Status,
	}
	trimmed.Status.Conditions = conditions(pod.Status.Conditions)
	return trimmed, nil
}

// conditions returns the conditions of a pod, which share memory with equal conditions of other pods. Conditions of
// different pods usually differ only in their times, and are equal if the pods were created together.
func conditions(all []corev1.PodCondition) []corev1.PodCondition {
	result := slices.Clone(all)
	for i := range result {
		probed, changed := all[i].LastProbeTime, all[i].LastTransitionTime
		result[i].LastProbeTime, result[i].LastTransitionTime = metav1.Time{}, metav1.Time{}
		result[i] = shared(result[i])
		result[i].LastProbeTime, result[i].LastTransitionTime = probed, changed
	}
	return shared(corev1.PodStatus{Conditions: result}).Conditions
}

// TrimShadowPod returns a shadow pod with its status and the fields that an update may change.
func TrimShadowPod(obj any) (any, error) {
	shadow, ok := obj.(*v1alpha1.ShadowPod)
	if !ok {
		return obj, nil
	}
	return &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         shadow.Namespace,
			Name:              shadow.Name,
			UID:               shadow.UID,
			ResourceVersion:   shadow.ResourceVersion,
			DeletionTimestamp: shadow.DeletionTimestamp,
			Labels:            shared(metav1.ObjectMeta{Labels: shadow.Labels}).Labels,
			Annotations:       shadow.Annotations,
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: shared(corev1.PodSpec{
			ActiveDeadlineSeconds: shadow.Spec.Pod.ActiveDeadlineSeconds,
			Containers:            containers(shadow.Spec.Pod.Containers),
			InitContainers:        containers(shadow.Spec.Pod.InitContainers),
			EphemeralContainers:   names(shadow.Spec.Pod.EphemeralContainers),
			Tolerations:           shadow.Spec.Pod.Tolerations,
		})},
		Status: shadow.Status,
	}, nil
}

// shared returns an equal value that was passed before, or the value itself, so that equal parts of the pods of a
// Deployment use memory once. Shared values must not be modified. Values above largestShared are not shared, because
// the table of recent values would use more memory than the caches.
func shared[T any, P interface {
	*T
	Marshal() ([]byte, error)
}](value T) T {
	encoded, err := P(&value).Marshal()
	if err != nil || len(encoded) > largestShared {
		return value
	}
	key := sharedKey[T](encoded)
	if existing, ok := sharedValues.Get(key); ok {
		return existing.(T)
	}
	sharedValues.Add(key, value)
	return value
}

// sharedKey is a value of type T, encoded as protobuf.
type sharedKey[T any] string

// largestShared is the maximum size of a shared value, in bytes of protobuf.
const largestShared = 4 << 10

// sharedValues has the values that shared returned most recently.
var sharedValues = lru.New(1024)

// containers returns containers with their names and the fields that an update may change.
func containers(all []corev1.Container) []corev1.Container {
	result := make([]corev1.Container, len(all))
	for i := range all {
		result[i] = corev1.Container{Name: all[i].Name, Image: all[i].Image, Resources: corev1.ResourceRequirements{
			Requests: resizable(all[i].Resources.Requests), Limits: resizable(all[i].Resources.Limits),
		}}
	}
	return result
}

// resizable returns the amounts of the resources in podspec.Resizable, which a resize may change; nil if there are
// none.
func resizable(amounts corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for _, name := range podspec.Resizable {
		if amount, named := amounts[name]; named {
			if kept == nil {
				kept = corev1.ResourceList{}
			}
			kept[name] = amount
		}
	}
	return kept
}

func names(containers []corev1.EphemeralContainer) []corev1.EphemeralContainer {
	if len(containers) == 0 {
		return nil
	}
	result := make([]corev1.EphemeralContainer, len(containers))
	for i := range containers {
		result[i].Name = containers[i].Name
	}
	return result
}

// trimEvent drops the fields of a provider's event that translate.Warning does not read.
func trimEvent(obj any) (any, error) {
	event, ok := obj.(*corev1.Event)
	if !ok {
		return obj, nil
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       event.Namespace,
			Name:            event.Name,
			UID:             event.UID,
			ResourceVersion: event.ResourceVersion,
		},
		InvolvedObject: corev1.ObjectReference{
			Kind: event.InvolvedObject.Kind,
			Name: event.InvolvedObject.Name,
			UID:  event.InvolvedObject.UID,
		},
		Type:    event.Type,
		Reason:  event.Reason,
		Message: translate.Message(event.Message),
	}, nil
}

// TrimTokenSecret returns a translate.RemoteTokens with the owner of a Secret with tokens and the time of their
// renewal.
func TrimTokenSecret(obj any) (any, error) {
	secret, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &translate.RemoteTokens{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       secret.Namespace,
			Name:            secret.Name,
			UID:             secret.UID,
			ResourceVersion: secret.ResourceVersion,
			OwnerReferences: secret.OwnerReferences,
		},
		RenewAfter: translate.RenewAfter(secret),
	}, nil
}
