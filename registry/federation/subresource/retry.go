// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresource

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TooManyRequests is returned with one of these Retry-After values, in seconds. client-go retries up to ten times.
const (
	deletingSeconds = 5
	raceSeconds     = 1
)

// raceAttempts is the number of attempts of a POST that loses races, before it fails with TooManyRequests.
const raceAttempts = 5

// lostRace is the error of a write to an object that changed after it was read.
type lostRace struct{ error }

// Unwrap returns the error of the write.
func (l lostRace) Unwrap() error { return l.error }

// LostRace wraps Conflict and AlreadyExists, the errors of a write to an object that changed after it was read, so that
// Settle retries. It returns any other error unchanged.
func LostRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return lostRace{err}
	}
	return err
}

// Settle calls post, and again if its error is from LostRace. It fails with TooManyRequests after raceAttempts calls.
func Settle[R any](resource schema.GroupResource, name string, post func() (R, error)) (R, error) {
	var lost lostRace
	for range raceAttempts {
		result, err := post()
		if !errors.As(err, &lost) {
			return result, err
		}
	}
	var none R
	return none, again(resource, name, raceSeconds, "it is being changed concurrently: retry")
}

// Deleting returns TooManyRequests for a request whose parent is being deleted.
func Deleting(resource schema.GroupResource, name string) error {
	return again(resource, name, deletingSeconds, "it is being deleted: retry after its deletion")
}

// Busy returns TooManyRequests for a request that must wait for the end of another operation. reason names the
// operation and what the user can do.
func Busy(resource schema.GroupResource, name, reason string) error {
	return again(resource, name, deletingSeconds, reason)
}

func again(resource schema.GroupResource, name string, seconds int, reason string) error {
	err := apierrors.NewTooManyRequests(fmt.Sprintf("%s %q: %s", resource, name, reason), seconds)
	details := err.ErrStatus.Details
	details.Group, details.Kind, details.Name = resource.Group, resource.Resource, name
	return err
}
