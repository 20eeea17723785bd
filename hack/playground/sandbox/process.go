// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/federation/hack/playground/state"
)

// Identify returns the identity of a running process.
func Identify(pid int) (state.Process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return state.Process{}, err
	}
	// The name of the program, in parentheses, may contain spaces. The first field after it is the state, and the
	// 20th is the start time.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return state.Process{}, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return state.Process{}, os.ErrProcessDone
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return state.Process{PID: pid, Start: start}, err
}

// Alive reports whether a process runs. A process that reuses the PID does not count.
func Alive(p state.Process) bool {
	if p.PID == 0 {
		return false
	}
	now, err := Identify(p.PID)
	return err == nil && now == p
}

// Kill sends a signal to a process, and waits for the end of the process until ctx ends. If it is the first
// process of a PID namespace, all other processes in the namespace end with it.
func Kill(ctx context.Context, p state.Process, signal unix.Signal) error {
	if p.PID == 0 {
		return nil
	}
	// The descriptor ensures that the signal is sent to the process whose identity is compared, even if its PID
	// is reused.
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !Alive(p) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", p.PID, err)
	}
	for Alive(p) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of process %d: %w", p.PID, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// stopTimeout is the time that a process may run after SIGTERM before it is killed.
const stopTimeout = 10 * time.Second

// Stop terminates a process, and kills it if it still runs after stopTimeout.
func Stop(ctx context.Context, p state.Process) error {
	asked, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := Kill(asked, p, unix.SIGTERM); err == nil || asked.Err() == nil {
		return err
	}
	return Kill(ctx, p, unix.SIGKILL)
}

// Daemon is a running process that Spawn started.
type Daemon struct {
	state.Process
	// Spec is the Spec of the Command with which the process was started.
	Spec string
}

// Daemons returns the running daemons by name, of the sandbox whose first process is holder. It reads /proc, as a
// record could be outdated.
func Daemons(holder state.Process) (map[string]Daemon, error) {
	if !Alive(holder) {
		return nil, nil
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", holder.PID))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	daemons := map[string]Daemon{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that cannot be read has ended. A process in another PID namespace is no daemon of this sandbox.
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || ns != namespace {
			continue
		}
		name, spec, ok := spawned(pid)
		if !ok {
			continue
		}
		if p, err := Identify(pid); err == nil {
			daemons[name] = Daemon{Process: p, Spec: spec}
		}
	}
	return daemons, nil
}

// specVariable is the environment variable with the name and the Spec of a process that Spawn started. Children inherit
// the variable: a process is the daemon only if its own name is the name in the variable.
const specVariable = "PLAYGROUND_DAEMON"

func spawned(pid int) (name, spec string, ok bool) {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", "", false
	}
	for _, variable := range strings.Split(string(environ), "\x00") {
		value, found := strings.CutPrefix(variable, specVariable+"=")
		if !found {
			continue
		}
		name, spec, _ = strings.Cut(value, " ")
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return "", "", false
		}
		argv0, _, _ := strings.Cut(string(cmdline), "\x00")
		return name, spec, argv0 == name
	}
	return "", "", false
}
