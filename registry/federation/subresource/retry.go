// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresource

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Temporary refusals are 429 with these seconds as Retry-After, as for evictions: client-go
// retries up to ten times.
const (
	deletingSeconds = 5
	raceSeconds     = 1
)

// raceAttempts is how often a POST reads the parent after a lost race, before its client
// has to retry.
const raceAttempts = 5

// lostRace is the failure of a write to an object that changed after it was read.
type lostRace struct{ error }

// Unwrap returns the wrapped failure.
func (l lostRace) Unwrap() error { return l.error }

// LostRace marks the failure of a write to an object that changed after it was read, so
// that Settle retries. It returns other failures unchanged.
func LostRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return lostRace{err}
	}
	return err
}

// Settle runs a POST, and retries it when it lost a race. After too many lost races it
// returns 429.
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

// Deleting returns 429 for a request whose parent is being deleted.
func Deleting(resource schema.GroupResource, name string) error {
	return again(resource, name, deletingSeconds, "it is being deleted: retry after its deletion")
}

// Busy returns 429 for a request that is refused until another operation has ended. reason
// names the operation, and what to do.
func Busy(resource schema.GroupResource, name, reason string) error {
	return again(resource, name, deletingSeconds, reason)
}

func again(resource schema.GroupResource, name string, seconds int, reason string) error {
	err := apierrors.NewTooManyRequests(fmt.Sprintf("%s %q: %s", resource, name, reason), seconds)
	details := err.ErrStatus.Details
	details.Group, details.Kind, details.Name = resource.Group, resource.Resource, name
	return err
}
