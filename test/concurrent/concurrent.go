// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package concurrent creates objects concurrently in tests of quotas and address pools.
package concurrent

import (
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Create calls create concurrently from several writers, and several times in each of them. It returns the number of
// calls that succeeded, and the number that failed with Forbidden. Any other error is a test error.
func Create(t testing.TB, writers, calls int, create func(writer, call int) error) (created, refused int) {
	t.Helper()
	var succeeded, forbidden atomic.Int64
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for call := range calls {
				switch err := create(writer, call); {
				case err == nil:
					succeeded.Add(1)
				case apierrors.IsForbidden(err):
					forbidden.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	return int(succeeded.Load()), int(forbidden.Load())
}
