// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Refusals that pass by themselves are 429 with Retry-After, as that of an
// eviction: well-behaved clients wait so many seconds and send the same again,
// client-go up to ten times.
const (
	deletingSeconds = 5
	raceSeconds     = 1
)

// raceAttempts is how often a POST looks again at what others changed
// meanwhile, before its client has to.
const raceAttempts = 5

// lostRace is the failure of a request that somebody else was faster than.
type lostRace struct{ error }

// Unwrap returns the failure.
func (l lostRace) Unwrap() error { return l.error }

// LostRace marks a failure of a write that found something else than what was
// read before, so that Settle looks again. Other failures stay as they are.
func LostRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return lostRace{err}
	}
	return err
}

// Settle runs a POST, and once more whenever it lost a race. Who never wins is
// asked to come again.
func Settle[R any](resource schema.GroupResource, name string, post func() (R, error)) (R, error) {
	var lost lostRace
	for range raceAttempts {
		result, err := post()
		if !errors.As(err, &lost) {
			return result, err
		}
	}
	var none R
	return none, again(resource, name, raceSeconds, "others are changing it at the same time; try again")
}

// Deleting is the answer to a request that comes while the parent goes.
func Deleting(resource schema.GroupResource, name string) error {
	return again(resource, name, deletingSeconds, "it is being deleted; wait until it is gone and try again")
}

// Busy is the answer to a request that is refused until something else has ended: why
// names it, and what to do.
func Busy(resource schema.GroupResource, name, why string) error {
	return again(resource, name, deletingSeconds, why)
}

func again(resource schema.GroupResource, name string, seconds int, why string) error {
	err := apierrors.NewTooManyRequests(fmt.Sprintf("%s %q: %s", resource, name, why), seconds)
	err.ErrStatus.Details.Group, err.ErrStatus.Details.Kind, err.ErrStatus.Details.Name = resource.Group, resource.Resource, name
	return err
}
