// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOnlyOneHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := false
	// The second one gives up as soon as it says that it waits.
	if _, err := Lock(ctx, path, func() { waited = true; cancel() }); !errors.Is(err, context.Canceled) || !waited {
		t.Fatalf("waited %v, got %v", waited, err)
	}
	unlock()
	unlock, err = Lock(t.Context(), path, func() { t.Error("nobody holds the lock") })
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestALockWhoseFileWasRemovedExcludesNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	second, err := Lock(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	second()
}
