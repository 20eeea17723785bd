// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReusedPIDIsNotKilled(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Start++
	if Alive(other) {
		t.Error("a process with another start time counts as alive")
	}
	if err := Kill(t.Context(), other, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !Alive(p) {
		t.Fatal("the wrong process was killed")
	}
	if err := Kill(t.Context(), p, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	if Alive(p) {
		t.Error("the process has not ended")
	}
	if err := Kill(t.Context(), p, unix.SIGKILL); err != nil {
		t.Errorf("killing an ended process: %v", err)
	}
}

func TestSpecDependsOnArgumentsAndFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(c Command) string {
		t.Helper()
		s, err := c.Spec()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write("a")
	c := Command{Name: "etcd", Program: "/bin/etcd", Args: []string{"--x"}, Files: []string{file}, Log: "/one"}
	first := spec(c)
	c.Log = "/two"
	if spec(c) != first {
		t.Error("the log file changed the spec")
	}
	write("b")
	second := spec(c)
	if second == first {
		t.Error("another configuration has the same spec")
	}
	c.Args = []string{"--x", "--y"}
	if spec(c) == second {
		t.Error("other arguments have the same spec")
	}
}
