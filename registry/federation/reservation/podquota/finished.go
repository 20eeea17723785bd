// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podquota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ErrTooManyFinished means that no shadow pod may be created, because the consumer keeps too many finished ones.
type ErrTooManyFinished struct {
	// Consumer is the name of the consumer's ForeignCluster.
	Consumer string
	// Finished is the number of its finished shadow pods, and Most the number from which new ones are refused.
	Finished, Most int
}

// Error implements error. The text ends with what an administrator can do.
func (e *ErrTooManyFinished) Error() string {
	return fmt.Sprintf("consumer %s keeps %d finished pods; new ones are accepted below %d: "+
		"delete finished pods of the consumer, or the Jobs that own them; "+
		"ttlSecondsAfterFinished deletes a finished Job automatically", e.Consumer, e.Finished, e.Most)
}

const (
	// leastFinished is the number of finished shadow pods that every consumer may keep, even with a smaller quota.
	leastFinished = 1000
	// mostFinished is the maximum number of finished shadow pods of a consumer. It equals the default of
	// kube-controller-manager's --terminated-pod-gc-threshold.
	mostFinished = 12500
)

// mayFinish returns the number of finished shadow pods that a consumer may keep: the number of pods in its quota, but
// at least leastFinished and at most mostFinished.
func mayFinish(limits corev1.ResourceList) int {
	pods := limits[corev1.ResourcePods]
	return int(min(max(pods.Value(), leastFinished), mostFinished))
}
