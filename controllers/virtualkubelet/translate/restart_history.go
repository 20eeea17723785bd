// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionOffloaded is True on a local pod that runs on a provider. Its message contains, in
// JSON, the UID of the remote pod and the restarts of the containers of earlier remote pods of it.
// Stored there, the counters survive a restart of the virtual kubelet and are written with the
// status they belong to.
const ConditionOffloaded corev1.PodConditionType = "offloading.liqo.io/Offloaded"

// maxRestarts bounds the counters of a provider, so that sums do not overflow.
const maxRestarts = 1 << 29

// restartHistory is the UID of the current remote pod and the restarts of earlier ones, by container.
type restartHistory struct {
	UID      types.UID        `json:"remotePodUID"`
	Restarts map[string]int32 `json:"earlierRestarts,omitempty"`
}

// historyOf returns the restart history in a status. A message of another writer is ignored: the
// counters then start from the current ones.
func historyOf(status *corev1.PodStatus) *restartHistory {
	result := &restartHistory{}
	if c := condition(status, ConditionOffloaded); c != nil {
		if err := json.Unmarshal([]byte(c.Message), result); err != nil {
			return &restartHistory{}
		}
	}
	return result
}

// observe sets the current remote pod. One with another UID was created in place of the last: each
// of its containers counts as restarted once.
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

// restarts returns the restarts of a container in all remote pods together: never less than
// reported before.
func (c *restartHistory) restarts(after, before *corev1.ContainerStatus) int32 {
	count := c.Restarts[after.Name] + min(max(after.RestartCount, 0), maxRestarts)
	if before != nil {
		count = max(count, before.RestartCount)
	}
	return count
}

func (c *restartHistory) store(status *corev1.PodStatus, now metav1.Time) {
	// Marshalling two strings and a map of numbers cannot fail.
	message, _ := json.Marshal(c)
	setCondition(
		status,
		corev1.PodCondition{
			Type:    ConditionOffloaded,
			Status:  corev1.ConditionTrue,
			Reason:  "RunsOnProvider",
			Message: string(message),
		},
		now,
	)
}
