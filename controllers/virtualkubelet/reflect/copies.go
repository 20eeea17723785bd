// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionOffloaded is True on a local pod that runs on a provider. Its
// message names the pod there, in JSON, and how often the containers of
// earlier copies of it were restarted: kept there, the counters survive a
// restart of the virtual kubelet and are written with the status they belong
// to.
const ConditionOffloaded corev1.PodConditionType = "offloading.liqo.io/Offloaded"

// maxRestarts bounds what a provider may count, so that sums do not overflow.
const maxRestarts = 1 << 29

// copies remembers which pod of the provider a status is about, and the
// restarts of those before it.
type copies struct {
	UID      types.UID        `json:"remotePodUID"`
	Restarts map[string]int32 `json:"earlierRestarts,omitempty"`
}

// copiesOf reads what was stored in a status. A message that somebody else
// has written counts as none: the counters then start from what they show.
func copiesOf(status *corev1.PodStatus) *copies {
	result := &copies{}
	if c := condition(status, ConditionOffloaded); c != nil {
		if err := json.Unmarshal([]byte(c.Message), result); err != nil {
			return &copies{}
		}
	}
	return result
}

// observe sees the pod that the provider has now. Another one than before was
// made in its place: each of its containers counts as restarted once.
func (c *copies) observe(uid types.UID, status *corev1.PodStatus) {
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

// restarts is how often a container was restarted, all copies of the pod
// together: never less than was said before.
func (c *copies) restarts(after, before *corev1.ContainerStatus) int32 {
	count := c.Restarts[after.Name] + min(max(after.RestartCount, 0), maxRestarts)
	if before != nil {
		count = max(count, before.RestartCount)
	}
	return count
}

func (c *copies) store(status *corev1.PodStatus, now metav1.Time) {
	// Marshalling two strings and a map of numbers cannot fail.
	message, _ := json.Marshal(c)
	setCondition(status, corev1.PodCondition{Type: ConditionOffloaded, Status: corev1.ConditionTrue, Reason: "RunsOnProvider", Message: string(message)}, now)
}
