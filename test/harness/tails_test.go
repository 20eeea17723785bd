// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEndsOfTheLogsOfAllDaemonsAreKept(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "nodes")
	long := strings.Repeat("x", tail) + "the end"
	for path, text := range map[string]string{
		"rome-control-plane/kube-apiserver.log": long, "rome-control-plane/kube-controller-manager.log": "short", "milan-worker-1/kubelet.log": "", "milan-worker-1/audit.json": "no log",
	} {
		if err := os.MkdirAll(filepath.Join(from, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := tails(from, to); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"rome-control-plane/kube-apiserver.log": long[len(long)-tail:], "rome-control-plane/kube-controller-manager.log": "short", "milan-worker-1/kubelet.log": "",
	} {
		got, err := os.ReadFile(filepath.Join(to, path))
		if err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, want %d: %v", path, len(got), len(want), err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "milan-worker-1", "audit.json")); !os.IsNotExist(err) {
		t.Errorf("a file that is no log was kept: %v", err)
	}
}
