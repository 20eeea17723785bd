// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is the time after which a process that does not terminate is killed.
const stopTimeout = 10 * time.Second

// starter returns a channel of functions, which run on a thread that lives as long as this process.
// The parent death signal of a child is sent when the thread that started it ends.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// process is a child process that is killed when this process ends.
type process struct {
	command *exec.Cmd
	log     string
	done    chan struct{}
	// err is the error of the ended process. It may be read after done is closed.
	err error
}

// start starts a command that is killed when this process ends.
func start(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starter() <- func() { started <- command.Start() }
	return <-started
}

// processes are all child processes, in the order in which they were started.
type processes struct {
	mu  sync.Mutex
	all []*process
	// stopped is true when no more processes may be started.
	stopped bool
}

// start starts a program, and writes its output to the file log.
func (p *processes) start(log, path string, environment []string, args ...string) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errors.New("the test environment is being stopped")
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command := exec.Command(path, args...)
	command.Env = append(os.Environ(), environment...)
	command.Dir = filepath.Dir(log)
	command.Stdout, command.Stderr = file, file
	if err := start(command); err != nil {
		return nil, err
	}
	child := &process{command: command, log: log, done: make(chan struct{})}
	go func() {
		child.err = command.Wait()
		close(child.done)
	}()
	p.all = append(p.all, child)
	return child, nil
}

// stopAll stops all processes in reverse order, so that each ends before those that it depends on.
func (p *processes) stopAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, child := range slices.Backward(p.all) {
		if err := child.stop(syscall.SIGTERM); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	p.all, p.stopped = nil, true
}

// stop sends a signal to the process, and waits until it ends. It kills the process after
// stopTimeout, and returns an error then.
func (p *process) stop(signal os.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return fmt.Errorf("%s did not end within %s after %s: %s", p.command.Path, stopTimeout, signal, p.tail())
}

// until repeats ready until it returns nil. It fails when the process ends or ctx is done.
func (p *process) until(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%w): %s", p.command.Path, p.err, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.command.Path, err, p.tail())
		case <-ticker.C:
		}
	}
}

// tail returns the last part of the output.
func (p *process) tail() string {
	const most = 16000
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-most):])
}
