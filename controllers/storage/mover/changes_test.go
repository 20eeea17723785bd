// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start checks the space and runs the first pass.
func (s *sender) start(t *testing.T) {
	t.Helper()
	if err := s.checkSpace(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.again(t)
}

// again runs a pass before the last one.
func (s *sender) again(t *testing.T) {
	t.Helper()
	if err := s.pass(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// end runs the last pass and the verification.
func (s *sender) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.pass(t.Context(), true), s.verify(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// changedAt returns the time at which the inode of a file in the source changed.
func (p *pair) changedAt(t *testing.T, name string) time.Time {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Lstat(filepath.Join(p.source, name), &stat); err != nil {
		t.Fatal(err)
	}
	return time.Unix(stat.Ctim.Unix())
}

// changeAfter writes the file "other" of the source until its time is later than that of the file.
func (p *pair) changeAfter(t *testing.T, name string) {
	t.Helper()
	eventually(t, "a change has a later time", func() bool {
		p.write(t, "other", time.Now().String())
		return p.changedAt(t, "other").After(p.changedAt(t, name))
	})
}

// rewrite writes a file without a change of its time.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o640),
		os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

// Of the writes to a page that is not on the disk yet, only the first one changes the time of the file.
func TestWriteToMappedFileAfterAPassIsCopied(t *testing.T) {
	p := newPair(t)
	var fs unix.Statfs_t
	if err := unix.Statfs(p.source, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.TMPFS_MAGIC {
		t.Fatal("the directory of temporary files is a tmpfs, which has no disk: set TMPDIR to a directory on a disk")
	}
	p.write(t, "mapped", strings.Repeat("-", 4096))
	file, err := os.OpenFile(filepath.Join(p.source, "mapped"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	page, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	page[0] = 'a'
	p.changeAfter(t, "mapped")
	s := p.newSender(t)
	s.start(t)
	page[0] = 'b'
	s.end(t)
	p.assertSame(t)
}

// The kernel reports once that data could not be written since the file system was mounted, also data of other volumes.
func TestSourceWithDataThatCouldNotBeWrittenIsCopied(t *testing.T) {
	syncfs = func(int) error { return unix.EIO }
	defer func() { syncfs = unix.Syncfs }()
	p := newPair(t)
	p.write(t, "file", "content")
	s := p.newSender(t)
	s.start(t)
	s.end(t)
	p.assertSame(t)
}

func TestChangeOfTheSameSizeAndTimeInAnEarlierPassIsCopied(t *testing.T) {
	p := newPair(t)
	p.write(t, "file", "before")
	s := p.newSender(t)
	s.start(t)
	rewrite(t, filepath.Join(p.source, "file"), "behind")
	p.changeAfter(t, "file")
	s.again(t)
	s.again(t)
	s.end(t)
	p.assertSame(t)
}

// rsync takes such names in a list of files as comments.
func TestChangedFilesWithTheNamesOfCommentsAreCompared(t *testing.T) {
	names := []string{"#file", ";file", "#directory/file", "./#file", "file", "a\n#file"}
	p := newPair(t)
	for _, name := range names {
		p.write(t, name, "before")
	}
	s := p.newSender(t)
	s.start(t)
	for _, name := range names {
		rewrite(t, filepath.Join(p.source, name), "behind")
	}
	s.end(t)
	p.assertSame(t)
}

// The times of files in a directory do not change when the directory is renamed.
func TestFilesOfRenamedDirectoriesAreCompared(t *testing.T) {
	p := newPair(t)
	names := []string{"a/file", "b/file", "a/below/file", "b/below/file", "kept/file"}
	then := time.Now().Add(-time.Hour)
	for i, name := range names {
		p.write(t, name, fmt.Sprintf("version %d", i))
		if err := os.Chtimes(filepath.Join(p.source, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	p.changeAfter(t, "kept/file")
	s := p.newSender(t)
	s.start(t)
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(filepath.Join(p.source, from), filepath.Join(p.source, to)); err != nil {
			t.Fatal(err)
		}
	}
	rename("a", "c")
	rename("b", "a")
	rename("c", "b")
	s.again(t)
	s.again(t)
	s.end(t)
	p.assertSame(t)
	for _, name := range s.changed {
		if strings.HasPrefix(name, "kept") {
			t.Errorf("%s is compared", name)
		}
	}
}

// With --inplace, rsync would write the content of each file to both, one after the other.
func TestHardLinksThatTheSourceHasNoMoreAreSeparated(t *testing.T) {
	for _, test := range []struct {
		name string
		// between runs between the passes and may return another sender.
		between func(t *testing.T, p *pair, s *sender) *sender
	}{
		{name: "one sender", between: func(_ *testing.T, _ *pair, s *sender) *sender { return s }},
		{name: "another sender", between: func(t *testing.T, p *pair, _ *sender) *sender {
			s := p.newSender(t)
			if err := s.checkSpace(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPair(t)
			p.write(t, "a", "both")
			if err := os.Link(filepath.Join(p.source, "a"), filepath.Join(p.source, "b")); err != nil {
				t.Fatal(err)
			}
			s := p.newSender(t)
			s.start(t)
			if err := os.Remove(filepath.Join(p.source, "b")); err != nil {
				t.Fatal(err)
			}
			p.write(t, "b", "other")
			s = test.between(t, p, s)
			s.again(t)
			p.assertSame(t)
		})
	}
}

func TestFilesAreChangedInPlaceOnceNoHardLinksAreLeft(t *testing.T) {
	p := newPair(t)
	p.write(t, "a", "both")
	if err := os.Link(filepath.Join(p.source, "a"), filepath.Join(p.source, "b")); err != nil {
		t.Fatal(err)
	}
	s := p.newSender(t)
	s.start(t)
	if err := os.Remove(filepath.Join(p.source, "b")); err != nil {
		t.Fatal(err)
	}
	inode := func() uint64 {
		t.Helper()
		var stat syscall.Stat_t
		if err := syscall.Stat(filepath.Join(p.target, "a"), &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Ino
	}
	p.write(t, "a", "longer content")
	s.again(t)
	before := inode()
	p.write(t, "a", "content")
	s.again(t)
	p.assertSame(t)
	if inode() != before {
		t.Error("the file in the target was replaced")
	}
}

// A kernel that crashes may have stored the size and the time of a file, but not its content.
func TestDataThatTheTargetLostWithItsReceiverIsCopiedAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		// lost is the request that another receiver answers, for example the second one to pathPass.
		path string
		lost int32
		// final is the request to pathPass from which on the receiver starts the last pass.
		final int32
		// passes is the expected number of passes.
		passes int32
	}{
		{name: "while the sender waits", path: pathPass, lost: 2, final: 5, passes: 3},
		{name: "before the last pass", path: pathPass, lost: 2, final: 2, passes: 2},
		{name: "in the last pass", path: pathRsync, lost: 2, final: 2, passes: 2},
		{name: "after the verification", path: pathSync, lost: 1, final: 2, passes: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPair(t)
			p.write(t, "file", "source")
			p.changeAfter(t, "file")
			current := atomic.Pointer[receiver]{}
			current.Store(newReceiver(p.receiver))
			var requests, passes atomic.Int32
			p.serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == test.path && requests.Add(1) == test.lost {
					rewrite(t, filepath.Join(p.target, "file"), "target")
					current.Store(newReceiver(p.receiver))
				}
				if r.URL.Path == pathPass && passes.Add(1) == test.final {
					p.final(t)
				}
				current.Load().handler().ServeHTTP(w, r)
			})
			if err := send(t.Context(), p.sender); err != nil {
				t.Fatal(err)
			}
			p.assertSame(t)
			if r := p.result(t); r.Passes != test.passes {
				t.Errorf("%d passes, want %d", r.Passes, test.passes)
			}
		})
	}
}

// serve makes a server with this handler the receiver.
func (p *pair) serve(t *testing.T, handler http.HandlerFunc) {
	t.Helper()
	config, err := p.receiver.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	p.sender.Address = server.Listener.Addr().String()
}

func TestDataThatTheTargetLostWithBothMoversIsCopiedAgain(t *testing.T) {
	p := newPair(t)
	p.write(t, "file", "source")
	p.changeAfter(t, "file")
	p.newSender(t).start(t)
	rewrite(t, filepath.Join(p.target, "file"), "target")
	s := p.newSender(t)
	s.start(t)
	s.end(t)
	p.assertSame(t)
}

// The kernel reports data that it could not write only once, and the sender requests again what it got no response to.
func TestFailureToWriteToTheDiskIsFinal(t *testing.T) {
	p := newPair(t)
	s := p.newSender(t)
	request := func() error {
		_, err := s.request(t.Context(), http.MethodPost, pathSync, requestTimeout)
		return err
	}
	if err := errors.Join(request(), os.Remove(p.target)); err != nil {
		t.Fatal(err)
	}
	if request() == nil {
		t.Error("the volume does not exist and was written to its disk")
	}
	if err := os.Mkdir(p.target, 0o755); err != nil {
		t.Fatal(err)
	}
	if request() == nil {
		t.Error("a failure was reported only once")
	}
}

// A receiver of version 0.1.0 sends neither its id nor what the target has.
func TestReceiverWithoutAnIDIsComparedInFull(t *testing.T) {
	p := newPair(t)
	p.write(t, "file", "source")
	p.changeAfter(t, "file")
	r := newReceiver(p.receiver)
	var passes atomic.Int32
	p.serve(t, func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case pathSpace:
			_, _ = w.Write([]byte(`{"space":1000000}`))
		case pathPass:
			if passes.Add(1) == 1 {
				_, _ = w.Write([]byte(`{}`))
				return
			}
			rewrite(t, filepath.Join(p.target, "file"), "target")
			_, _ = w.Write([]byte(`{"last":true}`))
		case pathSync:
			_, _ = w.Write([]byte(`{}`))
		default:
			r.handler().ServeHTTP(w, request)
		}
	})
	if err := send(t.Context(), p.sender); err != nil {
		t.Fatal(err)
	}
	p.assertSame(t)
}
