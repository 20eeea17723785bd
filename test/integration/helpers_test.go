// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// soon is the timeout for changes that take less than a second on an idle machine.
const soon = 15 * time.Second

// retry calls get until it returns no error. It fails the test after soon.
func retry[T any](t *testing.T, get func() (T, error)) T {
	t.Helper()
	return retryFor(t, soon, get)
}

// retryFor calls get until it returns no error. It fails the test after limit.
func retryFor[T any](t *testing.T, limit time.Duration, get func() (T, error)) T {
	t.Helper()
	deadline := time.After(limit)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		value, err := get()
		if err == nil {
			return value
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-ticker.C:
		}
	}
}

// admin returns a client of the federation API with all permissions.
func admin(t *testing.T) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(framework.Get(t).Admin)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
