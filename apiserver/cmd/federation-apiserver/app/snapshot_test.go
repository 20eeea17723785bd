// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"liqo.io/federation/apiserver/storage"
)

func TestRestoreThatWaitsForItsSnapshotCanBeCancelled(t *testing.T) {
	in, never := io.Pipe()
	defer never.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	err := restore(ctx, storage.RestoreOptions{Snapshot: standardInput, DataDir: dir}, in, &bytes.Buffer{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
}
