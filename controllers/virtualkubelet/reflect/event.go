// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kinds of what events are about.
const (
	// KindShadowPod is that of shadow pods.
	KindShadowPod = "ShadowPod"
	kindPod       = "Pod"
)

// AboutPod tells whether an event is about a pod or a shadow pod.
func AboutPod(event *corev1.Event) bool {
	kind := event.InvolvedObject.Kind
	return kind == kindPod || kind == KindShadowPod
}

// Warning is what a local object is told of a provider's event about its copy:
// a reason and a message of one line each, bounded, without control
// characters. It is not ok for events that are no troubles.
func Warning(event *corev1.Event, provider string) (why, message string, ok bool) {
	if event.Type != corev1.EventTypeWarning {
		return "", "", false
	}
	why = reason(line(event.Reason))
	return why, text(line(provider + ": " + event.Message)), why != ""
}

// line is a text in one line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
