// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// asMover is the environment variable that makes the test program run as the mover, for the rsync that starts it.
const asMover = "TEST_AS_MOVER"

func TestMain(m *testing.M) {
	// The workers of a fuzz test are this program too, with flags of the test.
	ofTest := slices.ContainsFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
	if os.Getenv(asMover) != "" && !ofTest {
		if err := Run(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = os.Setenv(asMover, "1")
	os.Exit(m.Run())
}

// moveIdentity has the certificate of a move and its key, as PEM.
type moveIdentity struct{ certificate, key []byte }

func newIdentity(t *testing.T, move string) moveIdentity {
	t.Helper()
	certificate, key, err := NewIdentity(move)
	if err != nil {
		t.Fatal(err)
	}
	return moveIdentity{certificate, key}
}

// pair has the directories of a source and a target volume, and the options of the sender and the receiver.
type pair struct {
	source, target   string
	sender, receiver *Options
}

// newPair starts a receiver that has the same certificate as the sender.
func newPair(t *testing.T) *pair {
	t.Helper()
	both := newIdentity(t, "move-a")
	return newPairOf(t, both, both)
}

// newPairOf starts a receiver with a certificate that may differ from the sender's.
func newPairOf(t *testing.T, ofReceiver, ofSender moveIdentity) *pair {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	options := func(own moveIdentity) *Options {
		directory := t.TempDir()
		o := &Options{
			Data: filepath.Join(directory, "data"), Certificate: filepath.Join(directory, "tls.crt"),
			PrivateKey: filepath.Join(directory, "tls.key"), Pass: filepath.Join(directory, "pass"),
			State: directory, Termination: filepath.Join(directory, "termination"), Address: address, program: program,
		}
		if err := errors.Join(os.Mkdir(o.Data, 0o755), os.WriteFile(o.Certificate, own.certificate, 0o600),
			os.WriteFile(o.PrivateKey, own.key, 0o600)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	receiver, sender := options(ofReceiver), options(ofSender)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- receive(ctx, receiver) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("receiver: %v", err)
		}
	})
	eventually(t, "the receiver is ready", func() bool {
		_, err := os.Stat(receiver.readyFile())
		return err == nil
	})
	return &pair{source: sender.Data, target: receiver.Data, sender: sender, receiver: receiver}
}

// newSender returns a sender whose passes the test runs itself.
func (p *pair) newSender(t *testing.T) *sender {
	t.Helper()
	client, err := p.sender.client()
	if err != nil {
		t.Fatal(err)
	}
	return &sender{Options: p.sender, client: client, directories: directories{}}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) {
			return condition(), nil
		})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func (p *pair) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(p.source, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) final(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(p.receiver.Pass, []byte(PassFinal), 0o600); err != nil {
		t.Fatal(err)
	}
}

// result returns the final report of the sender.
func (p *pair) result(t *testing.T) Report {
	t.Helper()
	content, err := os.ReadFile(p.sender.Termination)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := ParseReport(string(content))
	if !ok {
		t.Fatalf("%q is no report", content)
	}
	return r
}

// listing returns the attributes of every name in a directory that a move must preserve.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	names := map[string]string{}
	inodes := map[uint64]string{}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if name == lostAndFound {
			return filepath.SkipDir
		}
		stat := info.Sys().(*syscall.Stat_t)
		changed := info.ModTime()
		if info.IsDir() {
			// rsync does not change the time of a directory that differs by less than a second.
			changed = changed.Truncate(time.Second)
		}
		line := fmt.Sprintf("%v %d:%d %d %d", info.Mode(), stat.Uid, stat.Gid, stat.Rdev, changed.UnixNano())
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line += " -> " + target
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(content), content[:min(len(content), 32)])
			if first, ok := inodes[stat.Ino]; ok {
				line += " = " + first
			}
			inodes[stat.Ino] = name
		}
		for _, attribute := range []string{"user.origin", "system.posix_acl_access"} {
			value := make([]byte, 256)
			if n, err := unix.Lgetxattr(path, attribute, value); err == nil {
				line += fmt.Sprintf(" %s=%x", attribute, value[:n])
			}
		}
		names[name] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (p *pair) assertSame(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(listing(t, p.source), listing(t, p.target)); diff != "" {
		t.Errorf("target (-source +target):\n%s", diff)
	}
}

// Images have their program as /NAME, with the name of its folder in cmd.
func TestProgramHasTheNameOfItsFolder(t *testing.T) {
	if _, err := os.Stat(filepath.Join("..", "..", "cmd", Program, "main.go")); err != nil {
		t.Error(err)
	}
}

func TestMovedFilesKeepEverything(t *testing.T) {
	p := newPair(t)
	p.write(t, "a/first", "one")
	p.write(t, "caf\xe9-\xff", "a name that is not UTF-8")
	p.write(t, "new\nline", "")
	p.write(t, "* ?[x] $HOME", "a name for shells")
	p.write(t, "lost+found/x", "the file system's")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Link(filepath.Join(p.source, "a/first"), filepath.Join(p.source, "second")))
	must(os.Symlink("/etc/passwd", filepath.Join(p.source, "absolute")))
	must(os.Symlink("../../up", filepath.Join(p.source, "a/up")))
	must(syscall.Mkfifo(filepath.Join(p.source, "fifo"), 0o600))
	must(os.Mkdir(filepath.Join(p.source, "empty"), 0o700))
	sparse, err := os.Create(filepath.Join(p.source, "sparse"))
	must(err)
	must(sparse.Truncate(64 << 20))
	_, err = sparse.WriteAt([]byte("end"), 32<<20)
	must(err)
	must(sparse.Close())
	must(unix.Lsetxattr(filepath.Join(p.source, "a"), "user.origin", []byte("rome"), 0))
	if out, err := exec.Command("setfacl", "-m", "u:1234:r",
		filepath.Join(p.source, "a/first")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(os.Lchown(filepath.Join(p.source, "second"), 1234, 5678))
	must(os.WriteFile(filepath.Join(p.target, "stale"), []byte("from an earlier attempt"), 0o600))
	p.final(t)
	must(send(t.Context(), p.sender))
	p.assertSame(t)
	var stat syscall.Stat_t
	must(syscall.Stat(filepath.Join(p.target, "sparse"), &stat))
	if stat.Blocks*512 > 8<<20 {
		t.Errorf("the sparse file takes %d bytes", stat.Blocks*512)
	}
	if r := p.result(t); r.State != StateDone || r.Passes != 1 || r.BytesCopied != r.BytesTotal ||
		r.FilesCopied != r.FilesTotal {
		t.Errorf("result %+v", r)
	}
}

func TestLastPassCopiesWhatChangedWhileTheSenderWaited(t *testing.T) {
	p := newPair(t)
	p.write(t, "same-size", "before")
	p.write(t, "removed", "x")
	p.write(t, "kept", "x")
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(p.source, "same-size"), then, then); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- send(t.Context(), p.sender) }()
	eventually(t, "the passes before the last are done", func() bool {
		_, err := os.Stat(p.sender.readyFile())
		return err == nil
	})
	// The size and the time of this file do not change.
	p.write(t, "same-size", "behind")
	if err := errors.Join(os.Chtimes(filepath.Join(p.source, "same-size"), then, then),
		os.Remove(filepath.Join(p.source, "removed"))); err != nil {
		t.Fatal(err)
	}
	p.write(t, "new/file", "y")
	p.final(t)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	p.assertSame(t)
	if r := p.result(t); r.Passes != 2 {
		t.Errorf("%d passes, want 2", r.Passes)
	}
}

func TestFullVerificationRepairsChangesOfTheSameSizeAndTime(t *testing.T) {
	p := newPair(t)
	p.write(t, "file", "source")
	p.sender.Full = true
	info, err := os.Stat(filepath.Join(p.source, "file"))
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(p.target, "file")
	if err := errors.Join(os.WriteFile(target, []byte("target"), 0o640),
		os.Chtimes(target, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	p.final(t)
	if err := send(t.Context(), p.sender); err != nil {
		t.Fatal(err)
	}
	p.assertSame(t)
}

func TestManyNamesInTheRootAreMoved(t *testing.T) {
	p := newPair(t)
	for i := range 20_000 {
		if err := os.WriteFile(filepath.Join(p.source, fmt.Sprintf("%06d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.final(t)
	if err := send(t.Context(), p.sender); err != nil {
		t.Fatal(err)
	}
	if r := p.result(t); r.FilesCopied != 20_001 {
		t.Errorf("%d files copied", r.FilesCopied)
	}
}

func TestMoverOfAnotherMoveIsRefused(t *testing.T) {
	p := newPairOf(t, newIdentity(t, "move-a"), newIdentity(t, "move-a"))
	p.write(t, "secret", "x")
	p.final(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- send(ctx, p.sender) }()
	client, err := p.sender.client()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pathSpace, pathPass} {
		var unreachable *connectionError
		a, err := (&sender{Options: p.sender, client: client}).request(ctx, http.MethodGet, path, passTimeout)
		if !errors.As(err, &unreachable) {
			t.Errorf("the receiver answered %+v, error %v", a, err)
		}
	}
	if err := connect(ctx, p.sender, []string{"target", "rsync", "--server", ".", "."}, strings.NewReader(""),
		io.Discard); err == nil {
		t.Error("the receiver ran rsync")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if names := listing(t, p.target); len(names) != 1 {
		t.Errorf("the target holds %v", names)
	}
}

func TestReceiverAnswersOnlyTheCertificateOfItsMove(t *testing.T) {
	p := newPair(t)
	self, err := p.sender.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	other := newPair(t).sender
	foreign, err := other.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"no certificate":        {RootCAs: self.RootCAs, ServerName: serverName},
		"another certificate":   {RootCAs: self.RootCAs, ServerName: serverName, Certificates: foreign.Certificates},
		"an older TLS":          {RootCAs: self.RootCAs, ServerName: serverName, Certificates: self.Certificates, MaxVersion: tls.VersionTLS12},
		"HTTP without TLS":      nil,
		"another server's name": {RootCAs: self.RootCAs, ServerName: "localhost", Certificates: self.Certificates},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := "https"
			if config == nil {
				scheme = "http"
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
			response, err := client.Get(scheme + "://" + p.sender.Address + pathSpace)
			if err != nil {
				return
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode == http.StatusOK {
				t.Error("the receiver answered")
			}
		})
	}
}

func TestChangesAreFoundByTheClockOfTheFileSystem(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"old", "changed"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := walk(root)
	if err != nil {
		t.Fatal(err)
	}
	// Time stamps of the file system have a limited resolution.
	eventually(t, "a change has a later time", func() bool {
		if err := os.WriteFile(filepath.Join(root, "changed"), []byte("y"), 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := walk(root)
		return err == nil && second.newest.After(first.newest)
	})
	second, err := walkSince(root, first.newest.Add(1), true, true, directories{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"changed"}, second.changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestTargetWithoutRoomFailsBeforeCopying(t *testing.T) {
	p := newPair(t)
	p.write(t, "file", strings.Repeat("x", 4<<20))
	if err := unix.Mount("tmpfs", p.target, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(p.target, unix.MNT_DETACH) })
	p.final(t)
	err := send(t.Context(), p.sender)
	if err == nil || !strings.Contains(err.Error(), "has room for") {
		t.Fatalf("got %v", err)
	}
	if r := p.result(t); r.State != StateFailed || !strings.Contains(r.Message, "has room for") {
		t.Errorf("result %+v", r)
	}
}

func TestExitCodesOfRsync(t *testing.T) {
	const unreadable = `rsync: [sender] send_files failed to open "/data/x": Permission denied (13)`
	var connection *connectionError
	for _, test := range []struct {
		name  string
		code  int
		lines []string
		want  string
		retry bool
	}{
		{name: "a file that cannot be read", code: 23,
			want:  `copying: [sender] send_files failed to open "/data/x": Permission denied (13)`,
			lines: []string{unreadable, "rsync error: some files/attrs were not transferred (code 23)"}},
		{name: "vanished files", code: 24, want: errVanished.Error(), lines: []string{`file has vanished: "/data/y"`}},
		{name: "a lost connection", code: 12, want: "connection unexpectedly closed", retry: true, lines: []string{"rsync: connection unexpectedly closed"}},
		{name: "a full target", code: 12,
			want:  "copying: the target is full: [receiver] write failed: No space left on device (28)",
			lines: []string{"rsync: [receiver] write failed: No space left on device (28)"}},
		{name: "a full target whose connection broke first", code: 12,
			want: "copying: the target is full: [receiver] write failed: No space left on device (28)",
			lines: []string{"rsync: [sender] write error: Broken pipe (32)",
				"rsync: [receiver] write failed: No space left on device (28)"}},
		{name: "a full target without a message", code: 11,
			want:  "copying: the target cannot be written, it may be full: [sender] write error: Broken pipe (32)",
			lines: []string{"rsync: [sender] write error: Broken pipe (32)", "rsync error: error in file IO (code 11)"}},
		{name: "wrong arguments", code: 1, want: "starting rsync: rsync exited with code 1"},
		{name: "control characters", code: 23, want: "copying: a[31mb", lines: []string{"a\x1b[31mb"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := rsyncError(test.code, test.lines)
			if err.Error() != test.want || errors.As(err, &connection) != test.retry {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestReceiverRunsOnlyAReceivingRsync(t *testing.T) {
	for _, test := range []struct {
		args    []string
		refused bool
	}{
		{args: []string{"--server", "-lHogDtpAXrSe.iLsfxCIvu", "--delete-before", "--partial", "--numeric-ids", ".", "."}},
		{args: []string{"--server", "--sender", "-l", ".", "."}, refused: true},
		{args: []string{"--daemon", ".", "."}, refused: true},
		{args: []string{"--server", "--backup-dir=/etc", ".", "."}, refused: true},
		{args: []string{"--server", "--log-file=/x", ".", "."}, refused: true},
		{args: []string{"--server", "-l", ".", "a", "b"}, refused: true},
		// Option s reads other arguments from the connection, also if it is one of several, and M and T have values.
		{args: []string{"--server", "-s", ".", "."}, refused: true},
		{args: []string{"--server", "-slHogDtpAXrSe.iLsfxCIvu", ".", "."}, refused: true},
		{args: []string{"--server", "-Mx", ".", "."}, refused: true},
		{args: []string{"--server", "-Tx", ".", "."}, refused: true},
		{args: []string{"--server", "-@-1", "-nlOHgtpAXrcSe.iLsfxCIvu", ".", "."}},
		{args: []string{"."}, refused: true},
		{args: nil, refused: true},
	} {
		got, err := serverArguments(test.args, DataPath)
		if (err != nil) != test.refused {
			t.Errorf("%v: %v", test.args, err)
		}
		if err == nil && got[len(got)-1] != "/data/" {
			t.Errorf("%v becomes %v", test.args, got)
		}
	}
}

// The arguments that rsync passes to its server differ from its own flags, so this test runs rsync.
func TestReceiverAcceptsWhatEachSenderRequests(t *testing.T) {
	directory := t.TempDir()
	shell, requested := filepath.Join(directory, "shell"), filepath.Join(directory, "requested")
	script := "#!/bin/sh\nshift 2\nprintf '%s\\n' \"$@\" >" + requested + "\n"
	if err := os.WriteFile(shell, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(directory, "list")
	if err := os.WriteFile(list, []byte("./shell\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed := []string{"--itemize-changes", "--from0", "--files-from=" + list, nanoseconds}
	for _, root := range []bool{true, false} {
		for _, extra := range [][]string{
			{deleteFirst, nanoseconds, "--partial", "--info=progress2"},
			{deleteFirst, nanoseconds, "--partial", "--info=progress2", "--inplace"},
			append([]string{deleteFirst, nanoseconds, "--partial", "--info=progress2"}, checksums...),
			append([]string{"--itemize-changes", deleteFirst, nanoseconds}, checksums...),
			append(slices.Clone(changed), checksums...),
			append(append(slices.Clone(changed), checksums...), "--dry-run"),
			{"--itemize-changes", deleteFirst, "--dry-run"},
		} {
			o := Options{Bandwidth: 1 << 20}
			args := append(append(o.copyFlags(root), extra...), "--rsh="+shell, directory+"/", "target:.")
			// rsync fails because the shell starts no server.
			_ = exec.Command("rsync", args...).Run()
			content, err := os.ReadFile(requested)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := serverArguments(strings.Split(strings.TrimSpace(string(content)), "\n"), DataPath); err != nil {
				t.Errorf("root %t, %v: %v", root, extra, err)
			}
			// Reading a large file may take longer than any timeout.
			if slices.Contains(extra, checksums[0]) == strings.Contains(string(content), "--timeout") {
				t.Errorf("root %t, %v: the server has the arguments %q", root, extra, content)
			}
		}
	}
}

func TestRefusalOfTheReceiverReachesTheSender(t *testing.T) {
	p := newPair(t)
	err := connect(t.Context(), p.sender, []string{"target", "rsync", "--server", "--log-file=/x", ".", "."},
		strings.NewReader(""), io.Discard)
	if want := `receiving: reading a request: the option "--log-file=/x" of rsync is not allowed`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.RemoveAll(p.target); err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), p.sender); err == nil ||
		!strings.Contains(err.Error(), "receiving: reading the free space of the target") {
		t.Errorf("got %v", err)
	}
	if err := os.Mkdir(p.target, 0o755); err != nil {
		t.Fatal(err)
	}
}

// The receiver runs in the cluster of a peer.
func TestLongHeaderOfTheReceiverIsRefused(t *testing.T) {
	p := newPair(t)
	config, err := p.receiver.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		// The sender closes the connection when it has read enough.
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nX: %s\r\n\r\n", strings.Repeat("x", 4<<20))
	}))
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	p.sender.Address = server.Listener.Addr().String()
	err = connect(t.Context(), p.sender, []string{"target", "rsync", "--server", "-r", ".", "."}, strings.NewReader(""),
		io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "requesting rsync: ") {
		t.Errorf("error %v, want one about the response", err)
	}
}

func TestServerOfRsyncEndsWithItsConnection(t *testing.T) {
	p := newPair(t)
	in, stop := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- connect(ctx, p.sender, []string{"target", "rsync", "--server", "-r", ".", "."}, in, io.Discard)
	}()
	eventually(t, "rsync runs", func() bool { return len(servers(t)) == 1 })
	cancel()
	<-ended
	_ = stop.Close()
	eventually(t, "rsync has ended", func() bool { return len(servers(t)) == 0 })
}

// servers returns the processes of all rsync servers that this process has started. A server that has received the list
// of files has a child, which writes the files.
func servers(t *testing.T) (processes []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, path := range paths {
		var process, parent int
		var state string
		// If the process has ended, stat is empty.
		stat, _ := os.ReadFile(path)
		n, _ := fmt.Sscanf(string(stat), "%d (rsync) %s %d", &process, &state, &parent)
		if n == 3 && isServer(process) {
			parents[process] = parent
		}
	}
	for process, parent := range parents {
		if parent == os.Getpid() || parents[parent] == os.Getpid() {
			processes = append(processes, process)
		}
	}
	return processes
}

// isServer reports whether a process is an rsync server that has not ended.
func isServer(process int) bool {
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process))
	return err == nil && strings.HasPrefix(string(arguments), "rsync\x00--server\x00")
}

func TestServersOfRsyncDoNotRunAtTheSameTime(t *testing.T) {
	for _, test := range []struct {
		name string
		// stopped is true if the first server does not react.
		stopped bool
		next    func(t *testing.T, p *pair)
	}{
		{name: "another rsync", stopped: true, next: func(t *testing.T, p *pair) {
			_ = connect(t.Context(), p.sender, []string{"target", "rsync", "--server", "-r", ".", "."},
				strings.NewReader(""), io.Discard)
		}},
		{name: "writing to the disk", next: func(t *testing.T, p *pair) {
			if _, err := p.newSender(t).request(t.Context(), http.MethodPost, pathSync, requestTimeout); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPair(t)
			p.write(t, "file", strings.Repeat("x", 8<<20))
			p.sender.Bandwidth = 1 << 20
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- send(ctx, p.sender) }()
			var first []int
			eventually(t, "rsync writes", func() bool {
				first = servers(t)
				return len(first) == 2
			})
			for _, process := range first {
				if !test.stopped {
					continue
				}
				if err := syscall.Kill(process, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			test.next(t, p)
			for _, process := range first {
				if isServer(process) {
					t.Errorf("process %d of the first server has not ended", process)
					_ = syscall.Kill(process, syscall.SIGKILL)
				}
			}
			cancel()
			<-ended
		})
	}
}

func TestUnknownFlagNamesTheNearest(t *testing.T) {
	err := Run(t.Context(), []string{ModeReady, "--stat=/state"})
	want := "reading arguments: unknown flag: --stat; did you mean --state?"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestUnknownModeNamesTheModes(t *testing.T) {
	const known = ": must be one of receive, send, ready, connect"
	for _, test := range []struct {
		args []string
		want string
	}{
		{args: nil, want: `""` + known},
		{args: []string{"--full"}, want: `""` + known},
		{args: []string{"receve"}, want: `"receve"` + known + "; did you mean receive?"},
		{args: []string{"copy"}, want: `"copy"` + known},
	} {
		err := Run(t.Context(), test.args)
		if want := "reading arguments: the first one is " + test.want; err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", test.args, err, want)
		}
	}
}

func TestHelpSucceeds(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {ModeSend, "--help"}} {
		if err := Run(t.Context(), args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
