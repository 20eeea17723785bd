// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ErrTooManyFinished is what a consumer is refused with that keeps too many
// finished shadow pods.
type ErrTooManyFinished struct {
	// Consumer is the ForeignCluster.
	Consumer string
	// Finished is how many it keeps, and Most how many it may.
	Finished, Most int
}

// Error says how many there are and how they become fewer.
func (e *ErrTooManyFinished) Error() string {
	return fmt.Sprintf("consumer %s keeps %d finished pods here, and gets no new ones from %d on: "+
		"delete finished pods of the consumer, or the Jobs that they are of; with ttlSecondsAfterFinished a Job that has finished does so by itself", e.Consumer, e.Finished, e.Most)
}

const (
	// leastFinished is how many finished shadow pods every consumer may keep.
	leastFinished = 1000
	// mostFinished is how many any consumer may: as many as Kubernetes itself
	// leaves in a cluster, see --terminated-pod-gc-threshold of
	// kube-controller-manager.
	mostFinished = 12500
)

// mayFinish is how many finished shadow pods a consumer may keep that is
// granted so much: as many as it may run, within these bounds.
func mayFinish(granted corev1.ResourceList) int {
	pods := granted[corev1.ResourcePods]
	return int(min(max(pods.Value(), leastFinished), mostFinished))
}
