// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kinds of involved objects.
const (
	// KindShadowPod is the kind of shadow pods.
	KindShadowPod = "ShadowPod"
	kindPod       = "Pod"
)

// AboutPod reports whether an event is about a pod or a shadow pod.
func AboutPod(event *corev1.Event) bool {
	kind := event.InvolvedObject.Kind
	return kind == kindPod || kind == KindShadowPod
}

// Warning translates an event of the provider about a remote object for the local one: a reason
// and a message of one line each, bounded and without control characters. It returns false for an
// event that is no warning or has no reason.
func Warning(event *corev1.Event, provider string) (warningReason, message string, ok bool) {
	if event.Type != corev1.EventTypeWarning {
		return "", "", false
	}
	warningReason = reason(line(event.Reason))
	return warningReason, text(line(provider + ": " + event.Message)), warningReason != ""
}

// line returns a text in one line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
