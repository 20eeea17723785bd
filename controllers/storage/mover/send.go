// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

const (
	// shortPass is the maximum duration of the pass before the last one. After a longer pass, the sender starts another
	// one, up to maxPasses.
	shortPass = 10 * time.Second
	maxPasses = 5
	// pollInterval is the time between two requests to the receiver about the start of the last pass.
	pollInterval = 500 * time.Millisecond
	// reportInterval is the minimum time between two reports in a pass.
	reportInterval = time.Second
)

// sender copies a volume to the receiver in passes. Each pass is one run of rsync over the whole volume; only the first
// one copies all files.
type sender struct {
	*Options
	client *http.Client
	report Report
	// reported is the time of the last report.
	reported time.Time
	// receiver is the id of the receiver that answered last, or empty.
	receiver string
	// empty is true if no file in the target had content before the first pass, and this receiver has answered since.
	empty bool
	// since is a time by the clock of the file system. All paths whose content differs in the target changed at this time
	// or later. It is zero before the first pass to this receiver is complete.
	since time.Time
	// newest is the time of the latest change that the last walk found. changed has the paths that changed at since or
	// later, as the last walk found them.
	newest  time.Time
	changed []string
	// linked is true if a file of the source had several hard links in any walk, or a file of the target before the first
	// pass. It is false again once neither has such a file.
	linked bool
	// directories has the directories of all walks.
	directories directories
	// root is the device and the inode of the directory at which the volume was mounted in the first walk.
	root [2]uint64
}

// send copies until the target equals the source or a failure is permanent. It writes the final report and fails if
// copying failed.
func send(ctx context.Context, o *Options) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	s := &sender{Options: o, client: client, directories: directories{}}
	err = s.run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.report.State, s.report.Message = StateFailed, sanitize(err.Error())
	} else {
		s.report.State, s.report.Message = StateDone, ""
	}
	return errors.Join(err, s.report.terminate(o.Termination))
}

func (s *sender) run(ctx context.Context) error {
	if err := s.checkSpace(ctx); err != nil {
		return err
	}
	if err := s.beforeLast(ctx); err != nil {
		return err
	}
	if err := s.pass(ctx, true); err != nil {
		return err
	}
	return s.finish(ctx)
}

// finish compares source and target, and makes the receiver write the target to its disk. It repeats this if the
// receiver was replaced meanwhile, because the target may have lost data that was not on the disk yet.
func (s *sender) finish(ctx context.Context) error {
	for {
		receiver := s.receiver
		if err := s.verify(ctx); err != nil {
			return err
		}
		if err := s.retry(ctx, func() error {
			_, err := s.request(ctx, http.MethodPost, pathSync, requestTimeout)
			return err
		}); err != nil || s.receiver == receiver {
			return err
		}
	}
}

// observe records which receiver has answered. The kernel of an earlier receiver may have crashed: then files in the
// target may have their new size and time, but old content.
func (s *sender) observe(receiver string) {
	if s.receiver != receiver {
		s.receiver, s.empty, s.since = receiver, false, time.Time{}
	}
}

// beforeLast runs passes until one takes less than shortPass or maxPasses are complete, and then waits until the last
// pass is to start. If the receiver is replaced meanwhile, it runs another pass. It returns earlier if the receiver
// requests the last pass.
func (s *sender) beforeLast(ctx context.Context) error {
	enough := false
	for {
		last, err := s.last(ctx)
		if err == nil && !last && enough && !s.since.IsZero() {
			last, err = s.wait(ctx)
		}
		if err != nil || last {
			return err
		}
		start := time.Now()
		if err := s.pass(ctx, false); err != nil {
			return err
		}
		enough = s.report.Passes >= maxPasses || time.Since(start) < shortPass
	}
}

// wait returns true when the last pass is to start, and false if the receiver was replaced before.
func (s *sender) wait(ctx context.Context) (last bool, err error) {
	s.write(StateWaiting, "")
	if err := os.WriteFile(s.readyFile(), nil, 0o600); err != nil {
		return false, fmt.Errorf("reporting that the sender is ready: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var err error
		last, err = s.last(ctx)
		return last || s.since.IsZero(), err
	})
	return last, err
}

// last requests from the receiver whether to start the last pass. It retries while the receiver is unreachable.
func (s *sender) last(ctx context.Context) (bool, error) {
	var last bool
	err := s.retry(ctx, func() error {
		a, err := s.request(ctx, http.MethodGet, pathPass, passTimeout)
		last = a.Last
		return err
	})
	return last, err
}

// checkSpace fails if the files of the source do not fit into the target.
func (s *sender) checkSpace(ctx context.Context) error {
	tree, err := s.walk(false)
	if err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		a, err := s.request(ctx, http.MethodGet, pathSpace, requestTimeout)
		if err != nil {
			return err
		}
		if tree.allocated > a.Space {
			return fmt.Errorf("copying: the target has room for %d bytes, and the source has %d", a.Space, tree.allocated)
		}
		s.empty, s.linked = a.Empty, s.linked || a.Linked
		return nil
	})
}

// walk reads the tree of the source and records its totals in the report. It fails if another volume than in the first
// walk is mounted, or if the mover is not root and a file belongs to another user.
func (s *sender) walk(last bool) (*tree, error) {
	tree, err := walkSince(s.Data, s.since, !s.since.IsZero(), last, s.directories)
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 && tree.foreign != "" {
		return nil, fmt.Errorf("reading the files of the volume: %s does not belong to user %d, "+
			"whose rights the mover has in this namespace", tree.foreign, os.Geteuid())
	}
	if s.root == [2]uint64{} {
		s.root = tree.root
	}
	if s.root != tree.root {
		return nil, errors.New("reading the files of the volume: another volume is mounted in its place")
	}
	s.report.BytesTotal, s.report.FilesTotal = tree.bytes, tree.files
	s.newest, s.changed = tree.newest, tree.changed
	s.linked = s.linked || tree.linked
	return tree, nil
}

// pass runs rsync once over the whole source. In the last pass, it fails if files were deleted while rsync read the
// source.
func (s *sender) pass(ctx context.Context, last bool) error {
	// A change after the last walk has the time newest or a later one.
	began, first := s.newest, s.since.IsZero()
	if first {
		// The time of a file that is mapped into memory changes only with the first write to a page since the page was
		// written to the disk.
		if err := syncFileSystem(s.Data); err != nil {
			// An error may be of any write since the file system was mounted, also to another volume in it. Copying reads
			// what is left, and fails if it cannot be read.
			fmt.Fprintln(os.Stderr, err)
		}
	}
	err := s.retry(ctx, func() error {
		tree, err := s.walk(last)
		if err != nil {
			return err
		}
		// A receiver of version 0.1.0 has no id, and does not report hard links.
		if s.linked && !tree.linked && s.receiver != "" {
			a, err := s.request(ctx, http.MethodGet, pathSpace, requestTimeout)
			if err != nil {
				return err
			}
			s.linked = a.Linked || a.Receiver == ""
		}
		s.write(StateCopying, "")
		flags := []string{deleteFirst, nanoseconds, "--partial", "--info=progress2"}
		if !s.linked {
			// With --inplace, a changed block costs the transfer of one block. It is not used if a file has
			// several hard links, because rsync would then write to all of them. The target may still have hard
			// links that the source had in an earlier pass.
			flags = append(flags, "--inplace")
		}
		if first && !last && !s.empty && !s.Full {
			// The verification does not read files again that do not change after this pass.
			flags = append(flags, checksums...)
		}
		_, err = s.rsync(ctx, s.progress, flags...)
		if errors.Is(err, errVanished) && !last {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if first && !last {
		s.since = began
	}
	s.report.Passes++
	s.report.BytesCopied, s.report.FilesCopied = s.report.BytesTotal, s.report.FilesTotal
	s.report.BytesPerSecond, s.report.RemainingSeconds = 0, nil
	return nil
}

func (s *sender) progress(p progress) {
	s.report.BytesPerSecond, s.report.RemainingSeconds = p.bytesPerSecond, nil
	if s.report.Passes == 0 {
		s.report.BytesCopied = min(p.bytes, s.report.BytesTotal)
		s.report.FilesCopied = max(0, min(p.all-p.left, s.report.FilesTotal))
		if p.bytesPerSecond > 0 {
			s.report.RemainingSeconds = ptr.To((s.report.BytesTotal - s.report.BytesCopied) / p.bytesPerSecond)
		}
	}
	if time.Since(s.reported) >= reportInterval {
		s.write(StateCopying, "")
	}
}

// write sets the state and the message of the report, and writes the report to the log.
func (s *sender) write(state State, message string) {
	s.report.State, s.report.Message = state, message
	s.reported = time.Now()
	// Copying continues if the log cannot be written.
	_ = s.report.write()
}

// retry calls a function until it returns no connectionError, with exponential backoff. It returns other errors of the
// function, or the error of the context.
func (s *sender) retry(ctx context.Context, attempt func() error) error {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: 10}
	for {
		err := attempt()
		var connection *connectionError
		if !errors.As(err, &connection) {
			return err
		}
		s.write(StateConnecting, connection.message)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
}

// verify compares source and target after the last pass. It repairs differences once, because a file may change
// without a change of its size and time. It fails if source and target differ after the repair.
func (s *sender) verify(ctx context.Context) error {
	s.write(StateVerifying, "")
	selection := []string{deleteFirst}
	// A receiver of version 0.1.0 has no id, so that it may have been replaced.
	if !s.Full && !s.since.IsZero() && s.receiver != "" {
		// No other pod mounts the source, so it has not changed since the walk at the start of the last pass, and the list is
		// complete.
		list := filepath.Join(s.State, "changed")
		var names strings.Builder
		for _, name := range s.changed {
			// rsync ignores names that begin with # or ;.
			names.WriteString("./" + name + "\x00")
		}
		if err := os.WriteFile(list, []byte(names.String()), 0o600); err != nil {
			return fmt.Errorf("writing the list of changed files: %w", err)
		}
		selection = []string{"--from0", "--files-from=" + list}
	}
	selection = append(append(selection, nanoseconds), checksums...)
	repaired, err := s.compare(ctx, selection...)
	if err != nil {
		return err
	}
	if len(repaired.others) > 0 {
		// Writing a file changed the time of its directory, which may not be in the list.
		if _, err := s.compare(ctx, deleteFirst, nanoseconds); err != nil {
			return err
		}
		if err := s.same(ctx, append(selection, "--dry-run")...); err != nil {
			return err
		}
	}
	return s.same(ctx, deleteFirst, "--dry-run")
}

// same fails if rsync would change the target. flags must contain --dry-run.
func (s *sender) same(ctx context.Context, flags ...string) error {
	differences, err := s.compare(ctx, flags...)
	if err != nil {
		return err
	}
	if n := len(differences.others) + differences.more; n > 0 {
		return fmt.Errorf("verifying the target: %d paths differ from the source, the first is %s", n, differences.others[0])
	}
	return nil
}

// compare runs rsync with the flags and returns the paths that rsync changed in the target, or would change with
// --dry-run.
func (s *sender) compare(ctx context.Context, flags ...string) (*progressWriter, error) {
	var out *progressWriter
	err := s.retry(ctx, func() error {
		var err error
		out, err = s.rsync(ctx, nil, append([]string{"--itemize-changes"}, flags...)...)
		return err
	})
	return out, err
}
