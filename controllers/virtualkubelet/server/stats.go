// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summary returns the handler of /stats/summary. For each pod with a remote pod, it reports the start times of
// containers and the usage of volumes. It reports neither CPU nor memory, which the type Usage serves.
func summary(nodeName string, pods Pods, volumes *Volumes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result := stats.Summary{Node: stats.NodeStats{NodeName: nodeName}, Pods: []stats.PodStats{}}
		usage := volumes.all()
		for _, pod := range pods.List() {
			if remote := pods.RemoteStatus(pod.Namespace, pod.Name); remote != nil {
				reported := podStats(pod, remote)
				reported.VolumeStats = usage[pod.UID]
				result.Pods = append(result.Pods, reported)
			}
		}
		writeJSON(w, r, result)
	}
}

func podStats(pod *corev1.Pod, remote *corev1.PodStatus) stats.PodStats {
	result := stats.PodStats{
		PodRef:     stats.PodReference{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Containers: []stats.ContainerStats{},
	}
	if remote.StartTime != nil {
		result.StartTime = *remote.StartTime
	}
	for _, c := range remote.ContainerStatuses {
		if c.State.Running != nil {
			result.Containers = append(
				result.Containers,
				stats.ContainerStats{Name: c.Name, StartTime: c.State.Running.StartedAt},
			)
		}
	}
	return result
}
