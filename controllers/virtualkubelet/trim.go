// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/controllers/virtualkubelet/reflect"
)

// trimLocalPod keeps of a local pod what a shadow pod is made of.
func trimLocalPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return obj, nil
}

// trimRemotePod keeps of a provider's pod what makes a local status.
func trimRemotePod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			Name:            pod.Name,
			UID:             pod.UID,
			ResourceVersion: pod.ResourceVersion,
			Annotations:     map[string]string{v1alpha1.AnnotationOriginUID: pod.Annotations[v1alpha1.AnnotationOriginUID]},

			DeletionTimestamp:          pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Status: pod.Status,
	}, nil
}

// trimShadowPod keeps of a shadow pod how it stands, and those fields that
// may be updated.
func trimShadowPod(obj any) (any, error) {
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
			Labels:            shadow.Labels,
			Annotations:       shadow.Annotations,
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
			ActiveDeadlineSeconds: shadow.Spec.Pod.ActiveDeadlineSeconds,
			Containers:            containers(shadow.Spec.Pod.Containers),
			InitContainers:        containers(shadow.Spec.Pod.InitContainers),
			EphemeralContainers:   names(shadow.Spec.Pod.EphemeralContainers),
			Tolerations:           shadow.Spec.Pod.Tolerations,
		}},
		Status: shadow.Status,
	}, nil
}

// containers are what may be updated of containers, and their names. Those of one
// Deployment have the same, and share them: nobody writes to what a cache holds.
func containers(all []corev1.Container) []corev1.Container {
	var key strings.Builder
	for i := range all {
		// What the provider says may contain anything.
		key.WriteString(strconv.Quote(all[i].Name) + strconv.Quote(all[i].Image))
		for _, amounts := range []corev1.ResourceList{all[i].Resources.Requests, all[i].Resources.Limits} {
			for _, name := range rules.Resizable {
				if amount, named := amounts[name]; named {
					key.WriteString(amount.String())
				}
				key.WriteByte(';')
			}
		}
	}
	if known, ok := sameContainers.Get(key.String()); ok {
		return known.([]corev1.Container)
	}
	result := make([]corev1.Container, len(all))
	for i := range all {
		result[i] = corev1.Container{Name: all[i].Name, Image: all[i].Image, Resources: corev1.ResourceRequirements{
			Requests: resizable(all[i].Resources.Requests), Limits: resizable(all[i].Resources.Limits),
		}}
	}
	sameContainers.Add(key.String(), result)
	return result
}

// sameContainers holds the containers that were seen last.
var sameContainers = lru.New(512)

// resizable are those of some amounts that may be updated.
func resizable(amounts corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for _, name := range rules.Resizable {
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

// trimEvent keeps of an event of the provider what its pod is told.
func trimEvent(obj any) (any, error) {
	event, ok := obj.(*corev1.Event)
	if !ok {
		return obj, nil
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: event.Namespace, Name: event.Name, UID: event.UID, ResourceVersion: event.ResourceVersion},
		InvolvedObject: corev1.ObjectReference{Kind: event.InvolvedObject.Kind, Name: event.InvolvedObject.Name, UID: event.InvolvedObject.UID},
		Type:           event.Type,
		Reason:         event.Reason,
		Message:        reflect.Message(event.Message),
	}, nil
}

// trimTokenSecret keeps of a Secret with tokens whose they are and how long
// they are good.
func trimTokenSecret(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return obj, nil
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace:       secret.Namespace,
		Name:            secret.Name,
		UID:             secret.UID,
		ResourceVersion: secret.ResourceVersion,
		Annotations:     map[string]string{v1alpha1.AnnotationRenewAfter: secret.Annotations[v1alpha1.AnnotationRenewAfter]},
		OwnerReferences: secret.OwnerReferences,
	}}, nil
}

// trimNode keeps nothing of a node but that it is there.
func trimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}, nil
	}
	return obj, nil
}
