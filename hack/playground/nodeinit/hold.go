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

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// hold reads a line from its standard input, which the parent process writes after it recorded this process. Then it
// prepares the Linux namespaces of a node, prints ready, and keeps the namespaces until this process is terminated. If
// the parent ends without writing the line, hold fails.
func hold(args []string) error {
	var covers, keeps list
	flags := flag.NewFlagSet("hold", flag.ContinueOnError)
	flags.String("owner", "", "node that this process belongs to, shown by ps")
	hostname := flags.String("hostname", "", "name of the node; empty changes neither host name nor mounts")
	flags.Var(&covers, "cover", "TARGET=SOURCE: mount SOURCE, or a tmpfs if it is empty, at TARGET; may be repeated")
	flags.Var(&keeps, "keep", "directory to keep visible if a cover hides it; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting until the parent process has recorded this process: %w", err)
	}
	if *hostname != "" {
		if err := unix.Sethostname([]byte(*hostname)); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
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

// mounts mounts directories, in the mount namespace of the node, over the paths that Kubernetes and containerd use.
// Each cover is TARGET=SOURCE; without a SOURCE, a tmpfs is mounted at TARGET. The directories in keeps stay visible
// below a TARGET. The mounts end with the last process of the node.
func mounts(covers, keeps []string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	// The kubelet requires a shared mount tree, to propagate mounts to containers.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED); err != nil {
		return err
	}
	kept := map[string]int{}
	for _, dir := range keeps {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %s: %w", dir, err)
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
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}
