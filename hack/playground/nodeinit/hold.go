// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// hold keeps the namespaces that it was started in. It waits for a line on
// standard input before it touches anything: its parent writes it once the
// process is on record, so that a parent which dies earlier leaves nothing.
// Then it prepares the namespaces and says "ready".
func hold(args []string) error {
	var covers, keeps list
	flags := flag.NewFlagSet("hold", flag.ContinueOnError)
	flags.String("owner", "", "who this process belongs to, for people who read ps")
	hostname := flags.String("hostname", "", "name of the node; without it mounts and names are left alone")
	flags.Var(&covers, "cover", "TARGET=SOURCE: mount SOURCE, or a tmpfs if it is empty, over TARGET")
	flags.Var(&keeps, "keep", "directory that stays visible where a cover would hide it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("the playground ended before it had recorded this process: %w", err)
	}
	if *hostname != "" {
		if err := unix.Sethostname([]byte(*hostname)); err != nil {
			return fmt.Errorf("set hostname: %w", err)
		}
		if err := mounts(covers, keeps); err != nil {
			return err
		}
	}
	if _, err := fmt.Println("ready"); err != nil {
		return err
	}
	wait()
	return nil
}

// mounts gives the node directories of its own where Kubernetes and containerd
// have fixed paths. Nothing of it is seen outside, and all of it is gone with
// the last process of the node.
func mounts(covers, keeps []string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	// The kubelet passes mounts on to containers, which needs a shared tree.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED); err != nil {
		return err
	}
	kept := map[string]int{}
	for _, dir := range keeps {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		kept[dir] = fd
	}
	for _, cover := range covers {
		target, source, _ := strings.Cut(cover, "=")
		var err error
		if source == "" {
			err = mount("tmpfs", target, "tmpfs", 0)
		} else {
			err = mount(source, target, "", unix.MS_BIND|unix.MS_REC)
		}
		if err != nil {
			return err
		}
		for dir, fd := range kept {
			if !strings.HasPrefix(dir, filepath.Clean(target)+"/") {
				continue
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if err := mount(fmt.Sprintf("/proc/self/fd/%d", fd), dir, "", unix.MS_BIND|unix.MS_REC); err != nil {
				return err
			}
		}
	}
	return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
}

func mount(source, target, kind string, flags uintptr) error {
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}
