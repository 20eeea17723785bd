// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs processes in namespaces of their own. One process, the
// holder, keeps the namespaces of a sandbox alive and is the first in its PID
// namespace: when the holder is killed, the kernel ends every process in the
// sandbox and drops its mounts, interfaces and firewall rules.
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
	// Owner names the sandbox in process listings.
	Owner string
	// Hostname is the host name inside. Without it the sandbox has a network
	// and process tree of its own, but shares the machine's files and name.
	Hostname string
	Covers   []Cover
	// Keeps are directories that stay visible beneath the covers.
	Keeps []string
	// Log takes what the holder prints.
	Log string
}

// Cover puts a directory, or an empty tmpfs without Source, over Target.
type Cover struct{ Target, Source string }

// Path is where the daemons of a sandbox find programs, behind the directories
// of their own.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Start starts a sandbox. It calls record before the sandbox touches anything,
// and takes it down again when record fails.
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
		return fmt.Errorf("start sandbox %s: %w", config.Owner, err)
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
			err = fmt.Errorf("sandbox %s did not start, see %s", config.Owner, config.Log)
		}
	}
	if err != nil {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		return err
	}
	// The holder outlives this program; while both live, it must not become a zombie.
	go cmd.Wait()
	return nil
}

// Enter calls f on a thread that is in the network namespace of the holder, and
// with all also in its mount, PID, UTS and IPC namespaces. The thread is thrown
// away afterwards.
func Enter(holder state.Process, all bool, f func() error) error {
	names := []string{"net"}
	if all {
		names = []string{"net", "uts", "ipc", "pid", "mnt"}
	}
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		result <- func() error {
			if !Alive(holder) {
				return fmt.Errorf("process %d, which holds the namespaces, is gone", holder.PID)
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
					return fmt.Errorf("open namespace: %w", err)
				}
				fds = append(fds, fd)
			}
			// A mount namespace can only be entered by a thread that shares
			// its root and working directory with no other.
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			for i, fd := range fds {
				if err := unix.Setns(fd, 0); err != nil {
					return fmt.Errorf("enter %s namespace: %w", names[i], err)
				}
			}
			return f()
		}()
	}()
	return <-result
}

// Command is a daemon to run in a sandbox.
type Command struct {
	// Name is how the daemon is called in process listings; unique in the sandbox.
	Name string
	// Program is the path of the executable.
	Program string
	Args    []string
	// Files are configuration files: when their content changes, so does the Spec.
	Files []string
	// Path is searched for programs before the usual directories.
	Path string
	// Log takes what the daemon prints.
	Log string
}

// Spec is a hash of everything that makes the daemon what it is.
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

// Spawn starts a daemon in the sandbox. It outlives the caller.
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
	// Only the launcher is a child of this program; the daemon is the launcher's.
	err = Enter(holder, true, func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		return cmd.Wait()
	})
	if err != nil {
		return fmt.Errorf("start %s: %w, see %s", c.Name, err, c.Log)
	}
	return nil
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}
