// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Exit codes of rsync, as its manual lists them.
const (
	exitFileIO        = 11
	exitPartial       = 23
	exitVanished      = 24
	ioTimeoutSeconds  = 300
	rsyncErrorPrefix  = "rsync error:"
	rsyncWarnVanished = "file has vanished:"
)

const (
	// deleteFirst frees space before files are copied.
	deleteFirst = "--delete-before"
	// nanoseconds lets files differ that changed within one second.
	nanoseconds = "--modify-window=-1"
)

// waitDelay bounds how long a program may take to end once it was interrupted.
const waitDelay = 5 * time.Second

// errVanished means that files vanished while they were read.
var errVanished = errors.New("files vanished while they were read")

// connectionError is a failure that a retry may avoid.
type connectionError struct{ message string }

// Error returns what rsync reported.
func (e *connectionError) Error() string { return e.message }

// copyFlags are the flags of each run of rsync, which may be run by root.
func (o *Options) copyFlags(root bool) []string {
	flags := []string{
		"--archive", "--hard-links", "--acls", "--xattrs", "--sparse", "--numeric-ids",
		"--no-human-readable", "--outbuf=Line",
		"--exclude=/" + lostAndFound,
		// A label of SELinux belongs to the mount on the node.
		"--filter=-x security.selinux",
		fmt.Sprintf("--timeout=%d", ioTimeoutSeconds),
	}
	if o.Bandwidth > 0 {
		flags = append(flags, fmt.Sprintf("--bwlimit=%d", max(1, o.Bandwidth/1024)))
	}
	if !root {
		// The root of the volume belongs to the storage driver, and stays as it is.
		flags = append(flags, "--omit-dir-times", "--no-owner", "--no-devices")
	}
	return flags
}

// rsync runs one rsync from the volume to the receiver, and returns the lines that it
// prints, other than progress.
func (o *Options) rsync(ctx context.Context, report func(progress), flags ...string) (*progressWriter, error) {
	args := append(o.copyFlags(os.Geteuid() == 0), flags...)
	args = append(args, "--rsh="+strings.Join(o.connectCommand(), " "), strings.TrimSuffix(o.Data, "/")+"/", "target:.")
	cmd := command(ctx, "rsync", args...)
	out := &progressWriter{report: report}
	problems := &progressWriter{}
	cmd.Stdout, cmd.Stderr = out, problems
	err := cmd.Run()
	out.end()
	problems.end()
	if err == nil || ctx.Err() != nil {
		return out, ctx.Err()
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return out, fmt.Errorf("starting rsync: %w", err)
	}
	return out, rsyncError(exit.ExitCode(), problems.others)
}

// connectCommand is the remote shell of rsync, which appends its own arguments.
func (o *Options) connectCommand() []string {
	return []string{
		o.program, modeConnect, "--address=" + o.Address,
		"--tls-cert-file=" + o.Certificate, "--tls-private-key-file=" + o.PrivateKey,
	}
}

// command returns a program that is interrupted when the context ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// isFull reports whether a line reports that there is no space left. Then the connection breaks,
// too, which rsync may report first.
func isFull(line string) bool {
	return strings.Contains(line, "No space left on device") || strings.Contains(line, "Disk quota exceeded")
}

// rsyncError returns the error for an exit code and the lines that rsync printed. It
// names the first file.
func rsyncError(code int, lines []string) error {
	message := fmt.Sprintf("rsync exited with code %d", code)
	isCause := func(line string) bool {
		return !strings.HasPrefix(line, rsyncErrorPrefix) && !strings.HasPrefix(line, rsyncWarnVanished)
	}
	full, cause := slices.IndexFunc(lines, isFull), slices.IndexFunc(lines, isCause)
	switch {
	case full >= 0:
		message = strings.TrimPrefix(lines[full], "rsync: ")
	case cause >= 0:
		message = strings.TrimPrefix(lines[cause], "rsync: ")
	}
	switch {
	case code == exitVanished:
		return errVanished
	case code == exitFileIO && full < 0:
		return fmt.Errorf("copying: the target cannot be written, it may be full: %s", sanitize(message))
	case full >= 0:
		return fmt.Errorf("copying: the target is full: %s", sanitize(message))
	case code == exitPartial:
		return fmt.Errorf("copying: %s", sanitize(message))
	case code >= 1 && code <= 4:
		return fmt.Errorf("starting rsync: %s", sanitize(message))
	default:
		return &connectionError{message: sanitize(message)}
	}
}
