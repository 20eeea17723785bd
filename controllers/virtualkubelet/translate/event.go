// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kinds of the involved objects of events about pods.
const (
	KindShadowPod = "ShadowPod"
	kindPod       = "Pod"
)

// AboutPod reports whether an event is about a pod or a shadow pod.
func AboutPod(event *corev1.Event) bool {
	kind := event.InvolvedObject.Kind
	return kind == kindPod || kind == KindShadowPod
}

// Warning returns the reason and the message of an event that the provider emitted, to record on the local object. Each
// is one line, of bounded length and without control characters. It returns false for an event that is not a warning or
// has no valid reason.
func Warning(event *corev1.Event, provider string) (warningReason, message string, ok bool) {
	if event.Type != corev1.EventTypeWarning {
		return "", "", false
	}
	warningReason = reason(line(event.Reason))
	return warningReason, text(line(provider + ": " + event.Message)), warningReason != ""
}

// line replaces each run of white space, also of line breaks, by a single space.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
