// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/controllers/remote"
)

// TrimPod is a cache transform that keeps only some fields of pods; controllers read the other fields from the API
// server. Each pod keeps namespace, name, UID, resourceVersion, labels, phase, addresses, node and hostNetwork. A pod
// that mounts a claim also keeps the other metadata except managed fields, the volumes with claims, ServiceAccount,
// scheduling gates, tolerations, reason and conditions. From objects of other kinds it removes the managed fields.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return remote.Trim(object)
	}
	claims := claimVolumes(pod)
	if len(claims) == 0 {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
			},
			Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
			Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
		}, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: pod.ObjectMeta,
		Spec: corev1.PodSpec{
			Volumes: claims, NodeName: pod.Spec.NodeName, ServiceAccountName: pod.Spec.ServiceAccountName,
			SchedulingGates: pod.Spec.SchedulingGates, Tolerations: pod.Spec.Tolerations, HostNetwork: pod.Spec.HostNetwork,
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Conditions: pod.Status.Conditions, PodIPs: pod.Status.PodIPs,
		},
	}
	kept.ManagedFields = nil
	return kept, nil
}

func claimVolumes(pod *corev1.Pod) []corev1.Volume {
	var claims []corev1.Volume
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			claims = append(claims, volume)
		}
	}
	return claims
}
