// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakePrograms returns a directory with two shell scripts: initdb, which creates the files of a
// database cluster, and postgres with the given content.
func fakePrograms(t *testing.T, postgres string) string {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"initdb":   `data=${1#--pgdata=}; echo "$@" >"$data/arguments"; echo local all all trust >"$data/pg_hba.conf"`,
		"postgres": postgres,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedInitializationStartsOver(t *testing.T) {
	t.Setenv("POSTGRES_PASSWORD", "secret")
	data := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(data+".partial", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data+".partial", "stale"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	programs := fakePrograms(t, `echo "$@" >"$2/server"`)
	if err := run(t.Context(), programs, data, []string{"-c", "fsync=on"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "stale")); !os.IsNotExist(err) {
		t.Errorf("a file of the interrupted initialization is left: %v", err)
	}
	if got, want := read(t, data, "pg_hba.conf"), "local all all trust\nhost all all all scram-sha-256\n"; got != want {
		t.Errorf("access is %q", got)
	}
	if strings.Contains(read(t, data, "arguments"), "secret") {
		t.Error("the password is an argument")
	}
	if got := read(t, data, "server"); !strings.HasSuffix(got, "-c fsync=on\n") {
		t.Errorf("the server runs with %q", got)
	}
}

func TestExistingDataIsKept(t *testing.T) {
	data := t.TempDir()
	// The kubelet sets this mode when it applies fsGroup to all files.
	if err := os.Chmod(data, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), fakePrograms(t, ""), data, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data has mode %v, and its server requires 0700: %v", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(data, "arguments")); !os.IsNotExist(err) {
		t.Errorf("existing data was initialized: %v", err)
	}
}

func TestMissingPasswordIsRefused(t *testing.T) {
	t.Setenv("POSTGRES_PASSWORD", "")
	data := filepath.Join(t.TempDir(), "data")
	err := run(t.Context(), fakePrograms(t, ""), data, nil)
	if err == nil || !strings.Contains(err.Error(), "set POSTGRES_PASSWORD") {
		t.Errorf("got %v", err)
	}
}

func TestStopDoesNotWaitForClients(t *testing.T) {
	data := t.TempDir()
	// The file up shows that the traps are set. SIGINT ends the server, and SIGTERM does not.
	programs := fakePrograms(t, "trap 'echo fast >\"$2/stopped\"; exit 0' INT\ntrap '' TERM\necho up >\"$2/up\"\n"+
		"while :; do read -r line <\"$2/wait\" || :; done\n")
	fifo(t, filepath.Join(data, "up"))
	fifo(t, filepath.Join(data, "wait"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, programs, data, nil) }()
	up, err := os.Open(filepath.Join(data, "up"))
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	if _, err := bufio.NewReader(up).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := read(t, data, "stopped"); got != "fast\n" {
		t.Errorf("the server stopped %q", got)
	}
}
