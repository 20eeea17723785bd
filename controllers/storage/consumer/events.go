// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of events on claims. Provisioners of Kubernetes use them, too.
const (
	// ReasonProvisioning means that the volume is being provisioned; the message names the class and, for a provider, the
	// cluster, or the selected node if that was deleted and the scheduler selects another one.
	ReasonProvisioning = "Provisioning"
	// ReasonProvisioningSucceeded means that the volume exists.
	ReasonProvisioningSucceeded = "ProvisioningSucceeded"
	// ReasonProvisioningFailed means that the volume cannot be provisioned. The message has cause and remedy; if the
	// provider has no room, another node is selected.
	ReasonProvisioningFailed = "ProvisioningFailed"
)

// maxNotices is the maximum number of subjects, in the sense of recordFor, whose last event is kept.
const maxNotices = 4096

// notices records events about objects, but not an event that equals the last one about the same subject, so that a
// lasting state causes one event.
type notices struct {
	once sync.Once
	// kept has the last event about each subject. subjects returns it.
	kept *lru.Cache
}

func (n *notices) subjects() *lru.Cache {
	n.once.Do(func() { n.kept = lru.New(maxNotices) })
	return n.kept
}

// record records an event about an object, unless the last event with this reason is equal.
func (n *notices) record(
	events record.EventRecorder, object client.Object, kind, reason, format string, args ...any,
) {
	n.recordFor(events, reason, object, kind, reason, format, args...)
}

// recordFor records an event about an object, unless the last event about the same subject of the object is equal. A
// subject is a reason, or a part of the object that has a state of its own, for example a claim of a pod.
func (n *notices) recordFor(
	events record.EventRecorder, subject string, object client.Object, kind, reason, format string, args ...any,
) {
	key, text := string(object.GetUID())+subject, kind+reason+fmt.Sprintf(format, args...)
	if previous, ok := n.subjects().Get(key); ok && previous == text {
		return
	}
	n.subjects().Add(key, text)
	events.Eventf(object, kind, reason, format, args...)
}

// warn records a Warning about an object, unless the last event with this reason is equal.
func (n *notices) warn(
	events record.EventRecorder, object client.Object, reason, format string, args ...any,
) {
	n.record(events, object, corev1.EventTypeWarning, reason, format, args...)
}

// forget drops the last event about a subject, so that the next one is recorded.
func (n *notices) forget(subject string, uid types.UID) {
	n.subjects().Remove(string(uid) + subject)
}
