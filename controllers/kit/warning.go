// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/controllers/remote"
)

const (
	// The time between two reads of the events of a claim is the age of the claim, at least firstWarning and at most
	// lastWarning.
	firstWarning = 5 * time.Second
	lastWarning  = 2 * time.Minute
	// maxWarnings is the maximum number of events that are read for one claim, and warningsPage the maximum number in
	// one response.
	maxWarnings  = 256
	warningsPage = 16
)

// ProvisioningWarning returns the message of the newest Warning event about a claim that waits for its provisioner,
// because provisioners report failures only by events. It reads at most maxWarnings events, and ignores those of the
// component that except names. The message is empty if there are no other events, or if age, the age of the claim, is
// less than firstWarning. It also returns the time after which to call it again.
func ProvisioningWarning(
	ctx context.Context, reader client.Reader, claim *corev1.PersistentVolumeClaim, age time.Duration, except string,
) (string, time.Duration, error) {
	again := min(max(age, firstWarning), lastWarning)
	if age < firstWarning {
		return "", again, nil
	}
	selector := fields.SelectorFromSet(fields.Set{
		"involvedObject.uid": string(claim.UID), "type": corev1.EventTypeWarning,
	})
	var latest time.Time
	var warning, next string
	// Events are listed by name, so the newest may be on any page.
	for range maxWarnings / warningsPage {
		var events corev1.EventList
		err := reader.List(ctx, &events, client.InNamespace(claim.Namespace), client.Limit(warningsPage),
			client.Continue(next), client.MatchingFieldsSelector{Selector: selector})
		if err != nil {
			return "", 0, fmt.Errorf("listing the events of claim %s: %w", client.ObjectKeyFromObject(claim), err)
		}
		for i := range events.Items {
			event := &events.Items[i]
			if at := eventTime(event); (except == "" || event.Source.Component != except) && at.After(latest) {
				latest, warning = at, remote.Text(event.Message)
			}
		}
		if next = events.Continue; next == "" {
			break
		}
	}
	return warning, again, nil
}

// eventTime returns the time of the last occurrence of an event.
func eventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}
