// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	stunnel = "stunnel4"
	// waitDelay bounds how long a program may take to end once it was interrupted.
	waitDelay = 5 * time.Second
)

func (o *Options) readyFile() string { return filepath.Join(o.State, "ready") }

// tunnelConfig returns a configuration of stunnel. Neither side has a certificate, so
// that a peer without the key has no cipher suite in common with it.
func (o *Options) tunnelConfig(level, global, service string) string {
	return fmt.Sprintf(`foreground = yes
pid =
syslog = no
debug = %s
%s
%s
PSKsecrets = %s
ciphers = PSK
sslVersionMin = TLSv1.2
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
TIMEOUTclose = 0
`, level, global, service, o.Key)
}

// receiverConfig returns the configuration of the receiver: each connection is served
// by this program.
func (o *Options) receiverConfig() (string, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return "", fmt.Errorf("reading the address to accept connections on: %w", err)
	}
	if host == "" {
		host = "0.0.0.0"
		if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
			host = "::"
		}
	}
	return o.tunnelConfig("crit", "", fmt.Sprintf("[mover]\naccept = %s:%s\nexec = %s\nexecArgs = mover %s --data=%s --pass=%s",
		host, port, o.program, modeServe, o.Data, o.Pass)), nil
}

// writeSenderConfig writes the configuration of the sender's side of a connection, which
// has its standard input and output in place of a socket, and returns its path.
func (o *Options) writeSenderConfig() (string, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil || host == "" {
		return "", fmt.Errorf("reading the address to connect to: %q is not host:port", o.Address)
	}
	path := filepath.Join(o.State, "sender.conf")
	config := o.tunnelConfig("err", "client = yes\ndelay = yes", fmt.Sprintf("connect = %s:%s\nTIMEOUTconnect = 10", host, port))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return "", fmt.Errorf("writing the configuration of stunnel: %w", err)
	}
	return path, nil
}

// command returns a program that is interrupted when the context ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// receive accepts connections until the context ends.
func receive(ctx context.Context, o *Options) error {
	config, err := o.receiverConfig()
	if err != nil {
		return err
	}
	path := filepath.Join(o.State, "receiver.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of stunnel: %w", err)
	}
	cmd := command(ctx, stunnel, path)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting stunnel: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for listening := false; !listening; {
		select {
		case err := <-ended:
			return receiveEnded(ctx, err)
		case <-time.After(pollInterval):
			listening = o.listening()
		}
	}
	if err := os.WriteFile(o.readyFile(), nil, 0o600); err != nil {
		return fmt.Errorf("reporting that the receiver is ready: %w", err)
	}
	return receiveEnded(ctx, <-ended)
}

func receiveEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("accepting connections: stunnel ended: %w", errors.Join(err))
}

// listening reports whether the receiver accepts connections.
func (o *Options) listening() bool {
	host, port, _ := net.SplitHostPort(o.Address)
	if host == "" {
		host = "localhost"
	}
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// connect is the remote shell of rsync: it opens a connection with the configuration
// that the first argument names, requests rsync with the arguments after the host, and
// copies what the two sides of rsync send.
func connect(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 4 {
		return fmt.Errorf("reading arguments: %d are not enough for a connection", len(args))
	}
	guarded := &refusalReader{out: out}
	if err := dial(ctx, args[0], request{Rsync: args[3:]}, in, guarded); err != nil {
		return err
	}
	return guarded.refusal()
}

// refusalReader passes on what a server of rsync sends. In place of it, a receiver that
// refuses a request sends an answer: rsync does not begin with the brace of that line.
type refusalReader struct {
	out    io.Writer
	begun  bool
	answer *lineWriter
}

// Write passes bytes on, or keeps them if they are an answer.
func (r *refusalReader) Write(p []byte) (int, error) {
	if !r.begun && len(p) > 0 {
		r.begun = true
		if p[0] == '{' {
			r.answer = &lineWriter{done: func() {}}
		}
	}
	if r.answer != nil {
		return r.answer.Write(p)
	}
	return r.out.Write(p)
}

// refusal returns the error of the answer, if there was one.
func (r *refusalReader) refusal() error {
	if r.answer == nil {
		return nil
	}
	_, err := r.answer.parse()
	return cmp.Or(err, errors.New("receiving: the receiver ran no rsync"))
}

// dial sends a request to the receiver, and then what in holds; out receives the
// answer.
func dial(ctx context.Context, config string, r request, in io.Reader, out io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	cmd := command(ctx, stunnel, config)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("connecting to the receiver: %w", err)
	}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = out, &log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting stunnel: %w", err)
	}
	go func() {
		defer func() { _ = stdin.Close() }()
		if _, err := stdin.Write(append(line, '\n')); err == nil && in != nil {
			_, _ = io.Copy(stdin, in)
		}
	}()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("connecting to the receiver: %w: %s", err, sanitize(log.String()))
	}
	return nil
}

// ask sends a request that is answered by one line, and returns the answer.
func (o *Options) ask(ctx context.Context, config string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// The connection stays open until the answer is there: its end would be read as
	// the end of the request.
	hold, release := io.Pipe()
	out := &lineWriter{done: func() { _ = release.Close() }}
	defer func() { _ = hold.Close() }()
	if err := dial(ctx, config, r, hold, out); err != nil && len(out.line) == 0 {
		return answer{}, err
	}
	return out.parse()
}

// lineWriter keeps one line of at most maxRequest bytes.
type lineWriter struct {
	line []byte
	done func()
}

// Write keeps bytes up to the first newline.
func (w *lineWriter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' || len(w.line) >= maxRequest {
			w.done()
			break
		}
		w.line = append(w.line, b)
	}
	return len(p), nil
}

// parse returns the answer in the line, or the error that it reports.
func (w *lineWriter) parse() (answer, error) {
	var a answer
	if err := json.Unmarshal(w.line, &a); err != nil {
		return answer{}, fmt.Errorf("reading the receiver's answer: %w", err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("receiving: %s", sanitize(a.Error))
	}
	return a, nil
}
