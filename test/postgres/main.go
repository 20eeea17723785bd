// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command postgres is the entry point of the PostgreSQL image of the samples. It creates a database
// cluster in $PGDATA if there is none, and runs the server in it with its own arguments. On SIGTERM
// the server closes its connections and stops. The command does not need root.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

const (
	// programs is the directory of PostgreSQL 15 in Debian.
	programs = "/usr/lib/postgresql/15/bin"
	// defaultData is the data directory if $PGDATA is empty. It is a subdirectory of the mounted
	// volume, because the server requires that its own user owns the data directory.
	defaultData = "/var/lib/postgresql/data"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, programs, cmp.Or(os.Getenv("PGDATA"), defaultData), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

// run creates a database cluster in the directory data if the directory does not exist. Then it
// runs the server until the server ends or ctx is done.
func run(ctx context.Context, programs, data string, args []string) error {
	_, err := os.Stat(data)
	if errors.Is(err, fs.ErrNotExist) {
		err = initialize(ctx, programs, data)
	}
	if err != nil {
		return fmt.Errorf("initializing %s: %w", data, err)
	}
	// If the kubelet applies fsGroup to all files, it makes the directory writable for the group,
	// and the server refuses such a directory.
	if err := os.Chmod(data, 0o700); err != nil {
		return fmt.Errorf("restricting %s to its owner: %w", data, err)
	}
	// The image does not have the library that just-in-time compilation requires.
	server := command(ctx, filepath.Join(programs, "postgres"), append([]string{"-D", data,
		"-c", "listen_addresses=*", "-c", "unix_socket_directories=/tmp", "-c", "jit=off"}, args...)...)
	// On SIGTERM, the server would wait until its clients disconnect. On SIGINT it disconnects
	// them.
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGINT) }
	err = server.Run()
	if ctx.Err() != nil && server.ProcessState != nil && server.ProcessState.Success() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("running server: %w", err)
	}
	return nil
}

// initialize creates a database cluster atomically: if it is interrupted, the next call starts
// again. Clients in the container are trusted. All other clients have to authenticate as the user
// postgres with the password in $POSTGRES_PASSWORD.
func initialize(ctx context.Context, programs, data string) error {
	password := os.Getenv("POSTGRES_PASSWORD")
	if password == "" {
		return errors.New("no password for user postgres; set POSTGRES_PASSWORD")
	}
	partial := data + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return err
	}
	file := filepath.Join(os.TempDir(), "postgres-password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	err := command(ctx, filepath.Join(programs, "initdb"), "--pgdata="+partial, "--username=postgres", "--pwfile="+file,
		"--auth-local=trust", "--auth-host=scram-sha-256", "--locale=C.UTF-8", "--data-checksums").Run()
	if err != nil {
		return fmt.Errorf("running initdb: %w", err)
	}
	access, err := os.OpenFile(filepath.Join(partial, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := access.WriteString("host all all all scram-sha-256\n"); err != nil {
		return errors.Join(err, access.Close())
	}
	if err := access.Close(); err != nil {
		return err
	}
	return os.Rename(partial, data)
}

func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}
