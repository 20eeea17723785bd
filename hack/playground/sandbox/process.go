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
	// The command name in parentheses may hold spaces; the start time is the
	// 20th field after it, and the first is the process state.
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

// Alive tells whether exactly that process still runs.
func Alive(p state.Process) bool {
	if p.PID == 0 {
		return false
	}
	now, err := Identify(p.PID)
	return err == nil && now == p
}

// Kill ends exactly that process and returns when it is gone. With the first
// process of a PID namespace, everything in it is gone as well.
func Kill(ctx context.Context, p state.Process, signal unix.Signal) error {
	if p.PID == 0 {
		return nil
	}
	// The descriptor pins the process, so that its number cannot be reused
	// between the check of its identity and the signal.
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !Alive(p) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	for Alive(p) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d did not end: %w", p.PID, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// stopTimeout is how long a process may take to end when it is asked to.
const stopTimeout = 10 * time.Second

// Stop asks exactly that process to end, and kills it if it does not in time.
func Stop(ctx context.Context, p state.Process) error {
	asked, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := Kill(asked, p, unix.SIGTERM); err == nil || asked.Err() == nil {
		return err
	}
	return Kill(ctx, p, unix.SIGKILL)
}

// Daemon is a process that was started with Spawn.
type Daemon struct {
	state.Process
	// Spec is what Spawn was called with, as a hash.
	Spec string
}

// Daemons returns the daemons that run in the sandbox, by name. What the
// kernel says needs no record, and no record can be wrong about it.
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
		// Processes come and go while this looks at them: one that cannot be
		// read is none of ours or has ended.
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

// specVariable marks the processes that Spawn starts. Their children inherit
// it, so the name has to match as well.
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
