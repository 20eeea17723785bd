// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestWarningsOfTheProviderAreTranslated(t *testing.T) {
	about := corev1.ObjectReference{Kind: "Pod"}
	for _, test := range []struct {
		name         string
		event        corev1.Event
		why, message string
	}{
		{
			"warning about a pod",
			corev1.Event{
				Type: "Warning", InvolvedObject: about, Reason: "FailedScheduling", Message: "0/3 nodes are available",
			},
			"FailedScheduling", "milan: 0/3 nodes are available",
		},
		{
			"warning about a shadow pod",
			corev1.Event{
				Type: "Warning", InvolvedObject: corev1.ObjectReference{Kind: "ShadowPod"}, Reason: "FailedUpdate",
				Message: "refused",
			},
			"FailedUpdate", "milan: refused",
		},
		{
			"normal event",
			corev1.Event{Type: "Normal", InvolvedObject: about, Reason: "Pulled", Message: "x"}, "", "",
		},
		{
			"warning about a reflected object",
			corev1.Event{
				Type: "Warning", InvolvedObject: corev1.ObjectReference{Kind: "Service"},
				Reason: "SyncLoadBalancerFailed", Message: "no addresses left",
			},
			"SyncLoadBalancerFailed", "milan: no addresses left",
		},
		{
			"warning without a reason",
			corev1.Event{Type: "Warning", InvolvedObject: about, Reason: "\x1b", Message: "x"}, "", "",
		},
		{
			"control characters and line breaks",
			corev1.Event{
				Type: "Warning", InvolvedObject: about, Reason: "Back\nOff", Message: "one\r\n\ttwo\x1b[2J\u202e",
			},
			"Back Off", "milan: one two[2J",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			why, message, ok := Warning(&test.event, "milan")
			if ok != (test.why != "") || ok && (why != test.why || message != test.message) {
				t.Errorf("%q, %q, %t", why, message, ok)
			}
		})
	}
}

func TestWarningsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("é", 2000))).Draw(t, "text")
		why, message, _ := Warning(
			&corev1.Event{
				Type: "Warning", InvolvedObject: corev1.ObjectReference{Kind: "Pod"}, Reason: text, Message: text,
			},
			"milan",
		)
		if len(why) > maxReason || len(message) > MaxText ||
			strings.ContainsFunc(why+message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%d bytes of reason, %d of message: %q, %q", len(why), len(message), why, message)
		}
	})
}
