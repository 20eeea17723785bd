// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodeinit is the first process of a playground node, the launcher of its daemons, and the pause
// container of its pods:
//
//	nodeinit                             waits for SIGTERM and reaps orphans
//	nodeinit hold …                      prepares the namespaces of a node, then waits and reaps as above
//	nodeinit spawn NAME PROGRAM [ARG…]   starts a program under a name in a session of its own
package main

import (
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	var err error
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "":
		wait()
	case "hold":
		err = hold(os.Args[2:])
	case "spawn":
		err = spawn(os.Args[2:])
	default:
		err = fmt.Errorf("unknown mode %q", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodeinit:", err)
		os.Exit(1)
	}
}

// wait reaps ended processes until SIGTERM or SIGINT, as orphans become children of the first process in a PID
// namespace.
func wait() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
	}
}

// spawn starts the program args[1] under the process name args[0]. The program becomes a child of the first
// process in the PID namespace.
func spawn(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("spawn requires a name and a program")
	}
	argv := append([]string{args[0]}, args[2:]...)
	process, err := os.StartProcess(args[1], argv, &os.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	return process.Release()
}
