// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

const threadNamespace = "/proc/thread-self/ns/net"

// Namespace is a network namespace of this machine. It implements Kernel, and is safe for concurrent use.
type Namespace struct {
	file   *os.File
	handle *netlink.Handle
	// outer is the namespace with the sockets of tunnels, inner the namespace with the other ends of veth pairs.
	outer, inner *Namespace

	mu      sync.Mutex
	devices map[string]*userDevice // devices of wireguard-go, by link
	tables  *backend
	indexes map[string]int // of links, by name
}

var _ Kernel = &Namespace{}

// Current opens the network namespace of this process.
func Current() (*Namespace, error) {
	return open(threadNamespace)
}

// Enter opens the network namespace mounted on a file, and creates it if there is none. The opened namespace becomes
// the inner namespace of n: it has the other ends of n's veth pairs, and n has the UDP sockets of its tunnels.
func (n *Namespace) Enter(path string) (*Namespace, error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("creating the network namespace %s: %w", path, err)
	}
	inner, err := open(path)
	if err != nil {
		return nil, err
	}
	inner.outer, n.inner = n, inner
	return inner, nil
}

// RemoveNamespace unmounts a network namespace from its file and removes the file. The kernel deletes the
// namespace when its last process ends.
func RemoveNamespace(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting the network namespace %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close closes the namespace, and the devices of wireguard-go in it.
func (n *Namespace) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, d := range n.devices {
		d.Close()
		delete(n.devices, name)
	}
	n.handle.Close()
	return n.file.Close()
}

// Do runs f on a thread in the namespace. Sockets and processes that f creates, and files below /proc/sys that it
// opens, belong to this namespace.
func (n *Namespace) Do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		// If the thread cannot return to its original namespace it stays locked and ends with its goroutine, so
		// that no other goroutine runs in the wrong namespace.
		runtime.LockOSThread()
		original, err := os.Open(threadNamespace)
		if err != nil {
			result <- err
			return
		}
		defer original.Close()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("entering the network namespace %s: %w", n.file.Name(), err)
			return
		}
		err = f()
		if unix.Setns(int(original.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// Sysctl returns the value of a kernel parameter.
func (n *Namespace) Sysctl(path string) (string, error) {
	var value []byte
	err := n.Do(func() (err error) {
		value, err = os.ReadFile(filepath.Join("/proc/sys", path))
		return err
	})
	return strings.TrimSpace(string(value)), err
}

// SetSysctl sets a kernel parameter.
func (n *Namespace) SetSysctl(s model.Sysctl) error {
	return n.Do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", s.Path), []byte(s.Value), 0)
	})
}

func open(path string) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	handle, err := netlink.NewHandleAt(netns.NsHandle(file.Fd()), unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("opening netlink in the network namespace %s: %w", path, err)
	}
	return &Namespace{file: file, handle: handle, devices: make(map[string]*userDevice)}, nil
}

// create mounts a new network namespace on a file, unless the file already is one.
func create(path string) error {
	var at unix.Statfs_t
	if err := unix.Statfs(path, &at); err == nil && at.Type == unix.NSFS_MAGIC {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o400)
	if err != nil {
		return err
	}
	file.Close()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- err
			return
		}
		result <- unix.Mount(threadNamespace, path, "", unix.MS_BIND, "")
	}()
	if err := <-result; err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// retry calls f again, up to four times, while it fails because the system call was interrupted.
func retry(f func() error) error {
	err := f()
	for range 4 {
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
		err = f()
	}
	return err
}

// ignoreGone returns nil if the error means that the object to delete does not exist, and the error otherwise.
func ignoreGone(err error) error {
	var missing netlink.LinkNotFoundError
	for _, gone := range []error{unix.ESRCH, unix.ENOENT, unix.ENODEV, unix.EADDRNOTAVAIL, unix.ENXIO} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	if errors.As(err, &missing) {
		return nil
	}
	return err
}
