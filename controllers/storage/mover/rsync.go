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

// Exit codes and messages of rsync, as in its manual.
const (
	exitFileIO        = 11
	exitPartial       = 23
	exitVanished      = 24
	ioTimeoutSeconds  = 300
	rsyncErrorPrefix  = "rsync error:"
	rsyncWarnVanished = "file has vanished:"
)

const (
	// deleteFirst makes rsync delete files before it copies others, to free space.
	deleteFirst = "--delete-before"
	// nanoseconds makes rsync compare times with nanoseconds, so that it finds files that changed twice within a second.
	nanoseconds = "--modify-window=-1"
)

// checksums make rsync compare the content of files whose size and time are the same. rsync transfers nothing while it
// reads a file, which may take longer than ioTimeoutSeconds. Without that timeout, the kernel ends a connection that is
// lost: by the keepalive within minutes or, if data was sent that is not acknowledged, after retransmissions for a
// quarter of an hour by default. A shorter TCP_USER_TIMEOUT would also end connections whose other end reads a file.
var checksums = []string{"--checksum", "--timeout=0"}

// waitDelay is the time that an interrupted process may take to end before it is killed.
const waitDelay = 5 * time.Second

// errVanished is returned if files were deleted while rsync read the source.
var errVanished = errors.New("files vanished while they were read")

// connectionError is a failure that a retry may resolve.
type connectionError struct{ message string }

// Error implements error.
func (e *connectionError) Error() string { return e.message }

// copyFlags returns the flags of every run of rsync. root is whether the process runs as root.
func (o *Options) copyFlags(root bool) []string {
	flags := []string{
		"--archive", "--hard-links", "--acls", "--xattrs", "--sparse", "--numeric-ids",
		"--no-human-readable", "--outbuf=Line",
		"--exclude=/" + lostAndFound,
		// The SELinux label of a file belongs to the mount on a node, not to the data.
		"--filter=-x security.selinux",
		fmt.Sprintf("--timeout=%d", ioTimeoutSeconds),
	}
	if o.Bandwidth > 0 {
		flags = append(flags, fmt.Sprintf("--bwlimit=%d", max(1, o.Bandwidth/1024)))
	}
	if !root {
		// The root directory of the volume belongs to the storage driver and is not changed.
		flags = append(flags, "--omit-dir-times", "--no-owner", "--no-devices")
	}
	return flags
}

// rsync runs rsync from the volume to the receiver, and returns the lines that rsync prints to its standard output. It
// calls report for each line of progress, which it does not return. It fails with errVanished, with a connectionError,
// or, for a permanent failure, with another error.
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

// connectCommand returns the command of the remote shell for rsync, which appends arguments.
func (o *Options) connectCommand() []string {
	return []string{
		o.program, modeConnect, "--address=" + o.Address,
		"--tls-cert-file=" + o.Certificate, "--tls-private-key-file=" + o.PrivateKey,
	}
}

// command returns a command that receives SIGTERM when the context ends, and is killed waitDelay later.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// isFull reports whether a line of rsync's output states that the target has no free space. The connection then breaks,
// too, and rsync may print the line about the connection first.
func isFull(line string) bool {
	return strings.Contains(line, "No space left on device") || strings.Contains(line, "Disk quota exceeded")
}

// rsyncError returns the error for an exit code of rsync and the lines that it printed: errVanished, a connectionError
// if the connection failed, or a permanent error with the first line that names a cause.
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
