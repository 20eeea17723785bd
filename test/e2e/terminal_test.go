// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal.
type terminal struct {
	user, program *os.File
}

func openTerminal(t *testing.T) terminal {
	t.Helper()
	// SetSize requires a file in blocking mode.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a pseudo terminal: %v", err)
	}
	user := os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { user.Close() })
	number := must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock the pseudo terminal: %v", err)
	}
	program := must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { program.Close() })
	return terminal{user, program}
}

func (p terminal) resize(t *testing.T, rows, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatalf("resize the terminal: %v", err)
	}
}

// start runs cmd with the terminal as its controlling terminal.
func (p terminal) start(t *testing.T, cmd *exec.Cmd) *transcript {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.program, p.program, p.program
	cmd.SysProcAttr.Setpgid = false
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Setctty = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.program.Close()
	return transcribe(p.user)
}

// transcript has the output of a program up to now.
type transcript struct {
	sync.Mutex
	text strings.Builder
}

// transcribe records the output until from ends.
func transcribe(from io.Reader) *transcript {
	s := &transcript{}
	go func() {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadString('\n')
			s.Lock()
			s.text.WriteString(line)
			s.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *transcript) String() string {
	s.Lock()
	defer s.Unlock()
	return s.text.String()
}

// shows waits until the output contains want.
func (s *transcript) shows(t *testing.T, want string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("the program to print %q", want), func(context.Context) (bool, string, error) {
		got := s.String()
		return strings.Contains(got, want), fmt.Sprintf("%q", got), nil
	})
}
