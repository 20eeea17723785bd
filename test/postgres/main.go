// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command postgres is the entry point of the sample image of PostgreSQL. It
// creates a database cluster in $PGDATA if there is none, restricts it to its
// owner, and runs the server there with the arguments that it was given. On SIGTERM the server closes its
// connections and stops. No step needs root.
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
	// programs is the directory of the programs of PostgreSQL 15 in Debian.
	programs = "/usr/lib/postgresql/15/bin"
	// defaultData is used without $PGDATA. A volume is mounted above it, since
	// the server requires a directory that its own user owns.
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

// run initializes the directory data if it does not exist, then runs the server
// until it ends or ctx does.
func run(ctx context.Context, programs, data string, args []string) error {
	_, err := os.Stat(data)
	if errors.Is(err, fs.ErrNotExist) {
		err = initialize(ctx, programs, data)
	}
	if err != nil {
		return fmt.Errorf("initializing %s: %w", data, err)
	}
	// Where fsGroup is applied to all files, the kubelet lets the group write, and the
	// server refuses a directory that its group may write.
	if err := os.Chmod(data, 0o700); err != nil {
		return fmt.Errorf("restricting %s to its owner: %w", data, err)
	}
	// The image is without the compiler that just-in-time compilation requires.
	server := command(ctx, filepath.Join(programs, "postgres"), append([]string{"-D", data,
		"-c", "listen_addresses=*", "-c", "unix_socket_directories=/tmp", "-c", "jit=off"}, args...)...)
	// On SIGTERM the server itself would wait until its clients have left.
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

// initialize creates a database cluster in one step: an interrupted
// initialization is repeated from its beginning. Clients in the container are
// trusted; all others need $POSTGRES_PASSWORD, the password of user postgres.
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
