// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podquota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ErrTooManyFinished means that a consumer keeps too many finished shadow pods to create
// another one.
type ErrTooManyFinished struct {
	// Consumer is the name of its ForeignCluster.
	Consumer string
	// Finished is the number of its finished shadow pods, and Most the limit.
	Finished, Most int
}

// Error returns both numbers, and the remedy.
func (e *ErrTooManyFinished) Error() string {
	return fmt.Sprintf("consumer %s keeps %d finished pods; new ones are accepted below %d: "+
		"delete finished pods of the consumer, or the Jobs that own them; "+
		"ttlSecondsAfterFinished deletes a finished Job automatically", e.Consumer, e.Finished, e.Most)
}

const (
	// leastFinished is the number of finished shadow pods that every consumer may keep.
	leastFinished = 1000
	// mostFinished is the number that no consumer may exceed: the default of
	// --terminated-pod-gc-threshold of kube-controller-manager.
	mostFinished = 12500
)

// mayFinish returns the number of finished shadow pods that a consumer with this quota may
// keep: as many as it may run, within these bounds.
func mayFinish(granted corev1.ResourceList) int {
	pods := granted[corev1.ResourcePods]
	return int(min(max(pods.Value(), leastFinished), mostFinished))
}
