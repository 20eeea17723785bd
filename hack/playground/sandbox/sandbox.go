// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs processes in namespaces of their own. The holder of a sandbox is the first process of its
// PID namespace: when the holder is killed, the kernel kills all other processes, and deletes the mounts,
// interfaces and rules of the sandbox.
package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"liqo.io/federation/hack/playground/state"
)

// Config describes a sandbox.
type Config struct {
	// Init is the path of the nodeinit program.
	Init string
	// Owner is the name of the sandbox in process listings.
	Owner string
	// Hostname is the host name of the sandbox. If it is empty, the sandbox has network and PID namespaces of its
	// own, and shares files and host name with the machine.
	Hostname string
	Covers   []Cover
	// Keeps are directories to keep visible if a cover hides them.
	Keeps []string
	// Log is the file for the output of the sandbox's first process.
	Log string
}

// Cover mounts Source at Target. An empty Source means a tmpfs.
type Cover struct{ Target, Source string }

// Path is the search path of daemons. Directories in Path of the Command precede it.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Start starts a sandbox. Before the sandbox changes anything, Start calls record with its first process, and ends the
// sandbox if record fails.
func Start(config Config, record func(state.Process) error) error {
	log, err := openLog(config.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"playground-init", "hold", "-owner", config.Owner}
	flags := uintptr(unix.CLONE_NEWNET | unix.CLONE_NEWPID)
	if config.Hostname != "" {
		flags |= unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
		args = append(args, "-hostname", config.Hostname)
	}
	for _, c := range config.Covers {
		args = append(args, "-cover", c.Target+"="+c.Source)
	}
	for _, dir := range config.Keeps {
		args = append(args, "-keep", dir)
	}
	cmd := &exec.Cmd{
		Path:        config.Init,
		Args:        args,
		Dir:         "/",
		Env:         []string{"PATH=" + Path},
		Stderr:      log,
		SysProcAttr: &unix.SysProcAttr{Cloneflags: flags, Setsid: true},
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting sandbox %s: %w", config.Owner, err)
	}
	identity, err := Identify(cmd.Process.Pid)
	if err == nil {
		err = record(identity)
	}
	if err == nil {
		_, err = stdin.Write([]byte("go\n"))
	}
	if err == nil {
		_, err = bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			err = fmt.Errorf("starting sandbox %s: its first process ended; see %s", config.Owner, config.Log)
		}
	}
	if err != nil {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		return err
	}
	// Reaps the holder if it ends before this program.
	go cmd.Wait()
	return nil
}

// Enter calls f on a thread in the network namespace of the sandbox whose first process is holder. If all is set, the
// thread is in the mount, PID, UTS and IPC namespaces of the sandbox, too. The thread ends after the call.
func Enter(holder state.Process, all bool, f func() error) error {
	names := []string{"net"}
	if all {
		names = []string{"net", "uts", "ipc", "pid", "mnt"}
	}
	result := make(chan error, 1)
	go func() {
		// As the thread stays locked, the runtime ends it together with the goroutine.
		runtime.LockOSThread()
		result <- func() error {
			if !Alive(holder) {
				return fmt.Errorf("entering namespaces: their first process, with PID %d, has ended", holder.PID)
			}
			var fds []int
			defer func() {
				for _, fd := range fds {
					unix.Close(fd)
				}
			}()
			for _, name := range names {
				fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", holder.PID, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return fmt.Errorf("opening namespace: %w", err)
				}
				fds = append(fds, fd)
			}
			// A thread can enter a mount namespace only if it shares root and working directory with no other
			// thread.
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unsharing root and working directory: %w", err)
			}
			for i, fd := range fds {
				if err := unix.Setns(fd, 0); err != nil {
					return fmt.Errorf("entering %s namespace: %w", names[i], err)
				}
			}
			return f()
		}()
	}()
	return <-result
}

// Command is a daemon to run in a sandbox.
type Command struct {
	// Name is the name of the process. It must be unique in the sandbox.
	Name string
	// Program is the path of the executable.
	Program string
	Args    []string
	// Files are the configuration files whose content is part of Spec.
	Files []string
	// Path are directories to search for programs before the constant Path.
	Path string
	// Log is the file for the output of the daemon.
	Log string
}

// Spec returns a hash of the name, the program, the arguments, the path and the configuration files. It fails if
// a file is missing.
func (c Command) Spec() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", append([]string{c.Name, c.Program, c.Path}, c.Args...))
	for _, path := range c.Files {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %x\n", path, sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// Spawn starts a daemon in the sandbox whose first process is holder. init is the path of the nodeinit program. The
// daemon runs on when this process ends.
func Spawn(ctx context.Context, holder state.Process, init string, c Command) error {
	spec, err := c.Spec()
	if err != nil {
		return err
	}
	log, err := openLog(c.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	path := Path
	if c.Path != "" {
		path = c.Path + ":" + Path
	}
	cmd := exec.CommandContext(ctx, init)
	cmd.Args = append([]string{"playground-init", "spawn", c.Name, c.Program}, c.Args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + path, "HOME=/root", specVariable + "=" + c.Name + " " + spec}
	cmd.Stdout, cmd.Stderr = log, log
	// The launcher is a child of this program, and the daemon a child of the holder.
	err = Enter(holder, true, func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		return cmd.Wait()
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w; see %s", c.Name, err, c.Log)
	}
	return nil
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}
