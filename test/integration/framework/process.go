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

// stopTimeout is the time after which a process is killed.
const stopTimeout = 10 * time.Second

// starter runs functions on a thread that exists as long as this process. A child with a parent death
// signal dies with the thread that started it.
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

// process is a child that dies with this process.
type process struct {
	command *exec.Cmd
	log     string
	done    chan struct{}
	// err is the error of the process once done is closed.
	err error
}

// start starts a command that dies with this process.
func start(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starter() <- func() { started <- command.Start() }
	return <-started
}

// processes are all children, in the order of their start.
type processes struct {
	mu  sync.Mutex
	all []*process
	// stopped is set when no more may be started.
	stopped bool
}

// start runs a program with its output in log.
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

// stopAll stops the children, the last one first, so that dependencies are available.
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

// stop sends a signal and waits. A process that does not end is killed, which is an error.
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

// until polls ready until it returns nil, the process ends, or ctx is done.
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

// tail returns the end of the output.
func (p *process) tail() string {
	const most = 16000
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-most):])
}
