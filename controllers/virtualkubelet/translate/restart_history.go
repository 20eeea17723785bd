// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionOffloaded is True on a local pod that runs on a provider. Its message is JSON with the UID of the remote pod
// and the restarts of containers in earlier remote pods of the local pod. Because the message is in the status, it
// survives a restart of the virtual kubelet, and is written together with the restart counters of the current remote
// pod, to which it adds.
const ConditionOffloaded corev1.PodConditionType = "offloading.liqo.io/Offloaded"

// maxRestarts is the upper bound for a restart counter that a provider reports, so that sums do not overflow.
const maxRestarts = 1 << 29

// restartHistory is the message of ConditionOffloaded: the UID of the current remote pod, and how often containers
// restarted in earlier remote pods, by name.
type restartHistory struct {
	UID      types.UID        `json:"remotePodUID"`
	Restarts map[string]int32 `json:"earlierRestarts,omitempty"`
}

// historyOf returns the restart history in a status. It is empty if the condition is missing or its message is not
// valid JSON.
func historyOf(status *corev1.PodStatus) *restartHistory {
	result := &restartHistory{}
	if c := condition(status, ConditionOffloaded); c != nil {
		if err := json.Unmarshal([]byte(c.Message), result); err != nil {
			return &restartHistory{}
		}
	}
	return result
}

// observe sets the UID of the current remote pod. If the UID changed, the remote pod was created again, and each
// container that ran counts as restarted once more. status is the last status of the local pod.
func (c *restartHistory) observe(uid types.UID, status *corev1.PodStatus) {
	if c.UID == uid {
		return
	}
	c.UID = uid
	c.Restarts = map[string]int32{}
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, s := range statuses {
			if s.ContainerID != "" || s.RestartCount > 0 {
				c.Restarts[s.Name] = min(s.RestartCount, maxRestarts) + 1
			}
		}
	}
}

// restarts returns how often a container restarted in all remote pods of the local pod. after is the status in the
// current remote pod, and before the last status of the local pod, or nil. The result is at least the counter in
// before.
func (c *restartHistory) restarts(after, before *corev1.ContainerStatus) int32 {
	count := c.Restarts[after.Name] + min(max(after.RestartCount, 0), maxRestarts)
	if before != nil {
		count = max(count, before.RestartCount)
	}
	return count
}

func (c *restartHistory) store(status *corev1.PodStatus, now metav1.Time) {
	// Strings and numbers can always be encoded.
	message, _ := json.Marshal(c)
	setCondition(
		status,
		corev1.PodCondition{
			Type:    ConditionOffloaded,
			Status:  corev1.ConditionTrue,
			Reason:  reasonRunsOnProvider,
			Message: string(message),
		},
		now,
	)
}
