// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// VirtualKubelet and ControllerManager are names for StartProgram and RunProgram.
const (
	VirtualKubelet    = "federation-virtual-kubelet"
	ControllerManager = managerProgram
)

// StartProgram starts a program, waits until it is healthy at a port of the loopback address, and
// returns its process ID. It is stopped when the test ends.
func (e *Environment) StartProgram(t testing.TB, name string, port int, args ...string) int {
	t.Helper()
	log := e.programLog(name, port)
	args = append(args, "--tls-cert-file="+e.path("server.crt"), "--tls-private-key-file="+e.path("server.key"))
	child, err := e.processes.start(log, os.Args[0], []string{programMode + "=" + name}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	// The server is not verified, because only its health matters.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	err = child.until(ctx, func(context.Context) error {
		response, err := client.Get(fmt.Sprintf("https://%s:%d/healthz", loopback, port))
		if err == nil {
			err = response.Body.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return child.command.Process.Pid
}

func (e *Environment) programLog(name string, port int) string {
	return e.path(fmt.Sprintf("%s-%d.log", name, port))
}

// ProgramLog returns the output of the program that was started with this name and port.
func (e *Environment) ProgramLog(t testing.TB, name string, port int) string {
	t.Helper()
	content, err := os.ReadFile(e.programLog(name, port))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// RunProgram runs a program until it ends, and returns its output and exit code.
func (e *Environment) RunProgram(t testing.TB, name string, args ...string) (output string, code int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	child, err := e.processes.start(log, os.Args[0], []string{programMode + "=" + name}, args...)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-child.done:
	case <-time.After(startTimeout):
		t.Fatalf("%s does not end by itself: %s", name, child.tail())
	}
	return child.tail(), child.command.ProcessState.ExitCode()
}
