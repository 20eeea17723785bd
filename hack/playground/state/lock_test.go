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

func TestLockHasOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := false
	// The second call is cancelled once it waits for the lock.
	if _, err := Lock(ctx, path, func() { waited = true; cancel() }); !errors.Is(err, context.Canceled) || !waited {
		t.Fatalf("waited %v, got %v", waited, err)
	}
	unlock()
	unlock, err = Lock(t.Context(), path, func() { t.Error("waiting for a free lock") })
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLockWithoutFileIsFree(t *testing.T) {
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
