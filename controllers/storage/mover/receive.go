// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

// Paths of requests to a receiver. A request to pathRsync is upgraded to a connection of rsync. The response to others
// is an answer as JSON, or an error as text.
const (
	// pathSpace returns the free space of the target, and what the target has.
	pathSpace = "/space"
	// pathPass returns whether to start the last pass.
	pathPass = "/pass"
	// pathSync ends the rsync of an earlier request, and writes all received data to the disk.
	pathSync = "/sync"
	// pathRsync ends the rsync of an earlier request, and runs rsync as a server, with the values of the query parameter
	// arg as its arguments.
	pathRsync = "/rsync"
)

const (
	// maxRequest is the maximum size of the headers of a request and of an answer, in bytes.
	maxRequest = 16 << 10
	// maxConnections is the maximum number of concurrent connections. A move needs one or two; a client without the
	// certificate occupies one for at most handshakeTimeout.
	maxConnections   = 256
	handshakeTimeout = 10 * time.Second
)

// switching is the response to a request for pathRsync. After it, the connection has the protocol of rsync.
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: rsync\r\n\r\n"

// answer is the content of the response to a request other than pathRsync.
type answer struct {
	// Receiver identifies the process of the receiver. Receivers of version 0.1.0 do not set it.
	Receiver string `json:"receiver,omitempty"`
	// Space is the number of bytes of files that fit into the target, including the files in it.
	Space int64 `json:"space,omitempty"`
	// Empty is true if no file in the target has content. Linked is true if a file in it has several hard links. Receivers
	// of version 0.1.0 set neither.
	Empty  bool `json:"empty,omitempty"`
	Linked bool `json:"linked,omitempty"`
	// Last is true if the last pass is to start.
	Last bool `json:"last,omitempty"`
}

// receiver answers the requests of the sender, and runs at most one rsync at a time.
type receiver struct {
	*Options
	// id is random, so that it differs from that of every other receiver.
	id string
	// mu is locked while an rsync ends, and while the data is written to the disk.
	mu sync.Mutex
	// end ends the rsync of the last request, and returns when all its processes have ended; nil without such a request.
	end func()
	// lost is the first failure to write the data to the disk.
	lost error
}

func newReceiver(o *Options) *receiver { return &receiver{Options: o, id: rand.Text()} }

// receive accepts connections until the context ends. It fails if the certificate cannot be read or the port cannot be
// opened.
func receive(ctx context.Context, o *Options) error {
	config, err := o.tlsConfig()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("accepting connections: %w", err)
	}
	server := &http.Server{
		Handler: newReceiver(o).handler(), TLSConfig: config, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: handshakeTimeout, MaxHeaderBytes: maxRequest, Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := os.WriteFile(o.readyFile(), nil, 0o600); err != nil {
		return errors.Join(fmt.Errorf("reporting that the receiver is ready: %w", err), listener.Close())
	}
	if err := server.ServeTLS(netutil.LimitListener(listener, maxConnections), "", ""); ctx.Err() == nil {
		return fmt.Errorf("accepting connections: %w", err)
	}
	return nil
}

// handler returns the handler of the sender's requests.
func (r *receiver) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func() (answer, error){
		"GET " + pathSpace: func() (answer, error) { return space(r.Data) },
		"GET " + pathPass:  func() (a answer, err error) { a.Last, err = r.last(); return a, err },
		"POST " + pathSync: func() (answer, error) { return answer{}, r.sync() },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			a, err := serve()
			if err != nil {
				http.Error(w, sanitize(err.Error()), http.StatusInternalServerError)
				return
			}
			a.Receiver = r.id
			w.Header().Set("Content-Type", "application/json")
			// A sender that has disconnected does not need the response.
			_ = json.NewEncoder(w).Encode(a)
		})
	}
	mux.HandleFunc("POST "+pathRsync, r.serveRsync)
	return mux
}

// sync writes the target to its disk, after which nothing writes to it until the sender requests another rsync. After a
// failure it always fails: the kernel may report lost data only once, to a sender that does not receive the response.
func (r *receiver) sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		r.end()
	}
	if r.lost == nil {
		r.lost = syncFileSystem(r.Data)
	}
	return r.lost
}

// replace ends the rsync of the last request, and sets the function that ends that of the current one. An rsync whose
// sender was lost would otherwise wait for ioTimeoutSeconds, and may then write to the target.
func (r *receiver) replace(end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		r.end()
	}
	r.end = end
}

// serveRsync runs rsync as a server that writes to the volume, on the connection of the request.
func (r *receiver) serveRsync(w http.ResponseWriter, request *http.Request) {
	args, err := serverArguments(request.URL.Query()["arg"], r.Data)
	if err != nil {
		http.Error(w, sanitize(err.Error()), http.StatusBadRequest)
		return
	}
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, sanitize(err.Error()), http.StatusInternalServerError)
		return
	}
	defer func() { _ = connection.Close() }()
	ctx, kill := context.WithCancel(request.Context())
	ended := make(chan struct{})
	defer close(ended)
	defer kill()
	r.replace(func() {
		// rsync ends when its connection does, and first keeps the partial file for the next one.
		_ = connection.Close()
		defer time.AfterFunc(waitDelay, kill).Stop()
		<-ended
	})
	// The context of the request ends with the first failure to read from buffered, before rsync keeps a partial file.
	in := io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), connection)
	if err := runRsync(ctx, args, in, connection); err != nil {
		// The error ends the connection, and the sender connects again.
		fmt.Fprintln(os.Stderr, err)
	}
}

// runRsync runs rsync on the two directions of a connection until all its processes have ended, and kills them when the
// context ends. It fails if rsync cannot be started; rsync sends all other errors to the sender itself.
func runRsync(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	cmd := command(ctx, "rsync", args...)
	// The rsync that writes files is a child of the one that is started here. Both have the same process group. Wait
	// returns when both have closed the pipe of their standard error, which must not be a file for this.
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, 0
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdout, cmd.Stderr = out, struct{ io.Writer }{os.Stderr}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting rsync: %w", err)
	}
	if _, err := io.WriteString(out, switching); err != nil {
		return fmt.Errorf("responding to a request for rsync: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting rsync: %w", err)
	}
	// Wait calls Cancel only until the first process has ended.
	defer context.AfterFunc(ctx, func() { _ = cmd.Cancel() })()
	go func() {
		_, _ = io.Copy(stdin, in)
		_ = stdin.Close()
	}()
	_ = cmd.Wait()
	return nil
}

// last reports whether the content of the file Options.Pass is PassFinal, so that the last pass is to start.
func (o *Options) last() (bool, error) {
	content, err := os.ReadFile(o.Pass)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("reading the file that starts the last pass: %w", err)
	}
	return strings.TrimSpace(string(content)) == PassFinal, nil
}

var (
	// shortOptions has the options of copyFlags and of all passes. The value of option e, which is the last one, lists
	// features of the sender. Option s is refused: with it, rsync would read its arguments from the connection.
	shortOptions = regexp.MustCompile(`^-([ADHORSXcglnoprt]+(e[A-Za-z.0-9]*)?|@-1)$`)
	longOptions  = regexp.MustCompile(`^--(server|delete|delete-before|checksum|numeric-ids|inplace|partial|sparse|` +
		`specials|from0|relative|` +
		`no-[a-z-]+|ignore-errors|timeout=[0-9]+|bwlimit=[0-9]+|log-format=[%A-Za-z]*|out-format=[%A-Za-z]*)$`)
)

// serverArguments returns the arguments for rsync as a server, from the arguments that a sender requests. It fails for
// options that are not allowed, for example those with the names of other files. The server always receives into the
// directory of the volume.
func serverArguments(args []string, data string) ([]string, error) {
	dot := slices.Index(args, ".")
	if dot < 1 || len(args) != dot+2 || args[0] != "--server" {
		return nil, errors.New("reading a request: the arguments are not those of an rsync that sends")
	}
	for _, arg := range args[:dot] {
		if !shortOptions.MatchString(arg) && !longOptions.MatchString(arg) {
			return nil, fmt.Errorf("reading a request: the option %q of rsync is not allowed", sanitize(arg))
		}
	}
	return append(slices.Clone(args[:dot]), ".", strings.TrimSuffix(data, "/")+"/"), nil
}

// space returns how many bytes of files fit into the file system of a directory, including the files in the directory,
// and what the target has.
func space(directory string) (answer, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(directory, &fs); err != nil {
		return answer{}, fmt.Errorf("reading the free space of the target: %w", err)
	}
	tree, err := walk(directory)
	if err != nil {
		return answer{}, err
	}
	return answer{
		Space: int64(fs.Bavail)*fs.Bsize + tree.allocated, Empty: tree.bytes == 0, Linked: tree.linked,
	}, nil
}

// syncfs writes the cached data of a file system to its disk. Tests replace it.
var syncfs = unix.Syncfs

// syncFileSystem writes all cached data of a directory's file system to its disk, and of no other file system.
func syncFileSystem(directory string) error {
	root, err := os.Open(directory)
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := syncfs(int(root.Fd())); err != nil {
		return fmt.Errorf("writing the volume to its disk: %w", err)
	}
	return nil
}
