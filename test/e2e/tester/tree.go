// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// bigFile is the size, in bytes, of a file that takes some time to copy.
	bigFile = 4 << 20
	// smallFiles is the number of files with different owners and modes.
	smallFiles = 300
	// sparseFile is the length, in bytes, of a file with a single block of data in its middle. A copy must have the same
	// holes.
	sparseFile = 4 << 20
)

// makeTree creates files with everything that a copy can lose: owners, modes, times, extended
// attributes, access control lists, hard links, holes, and names that are not UTF-8. The content is
// always the same.
func makeTree(root string) error {
	random := rand.NewChaCha8([32]byte{})
	content := func(size int) []byte {
		p := make([]byte, size)
		_, _ = random.Read(p)
		return p
	}
	if err := os.MkdirAll(filepath.Join(root, "small"), 0o750); err != nil {
		return err
	}
	for i := range smallFiles {
		name := filepath.Join(root, "small", fmt.Sprintf("%d", i))
		if err := os.WriteFile(name, content(512+i), 0o600); err != nil {
			return err
		}
		if err := os.Chown(name, 1000+i%3, 2000+i%5); err != nil {
			return err
		}
		if err := unix.Chmod(name, []uint32{0o600, 0o644, 0o4755, 0o2711}[i%4]); err != nil {
			return err
		}
	}
	in := func(name string) string { return filepath.Join(root, name) }
	for _, name := range []string{"linked", "attributes", "list", "not \xff UTF-8\n"} {
		if err := os.WriteFile(in(name), content(100), 0o640); err != nil {
			return err
		}
	}
	if err := os.WriteFile(in("big"), content(bigFile), 0o640); err != nil {
		return err
	}
	hole, err := os.Create(in("sparse"))
	if err != nil {
		return err
	}
	_, writeErr := hole.WriteAt(content(4096), sparseFile/2)
	return errors.Join(writeErr, hole.Truncate(sparseFile), hole.Close(),
		os.Link(in("linked"), in("link")),
		os.Symlink("linked", in("symlink")),
		unix.Mkfifo(in("fifo"), 0o600),
		unix.Setxattr(in("attributes"), "user.origin", []byte("rome\x00"), 0),
		unix.Setxattr(in("list"), "system.posix_acl_access", accessList(), 0))
}

// accessList returns the binary form of an access control list that permits user 1234 to read: a version, and tag,
// permissions and ID of each entry.
func accessList() []byte {
	const none = ^uint32(0)
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, entry := range []struct {
		tag, permissions uint16
		id               uint32
	}{{0x01, 6, none}, {0x02, 4, 1234}, {0x04, 4, none}, {0x10, 4, none}, {0x20, 0, none}} {
		list = binary.LittleEndian.AppendUint16(list, entry.tag)
		list = binary.LittleEndian.AppendUint16(list, entry.permissions)
		list = binary.LittleEndian.AppendUint32(list, entry.id)
	}
	return list
}

// printTree prints a line with attributes and checksum for each file below a directory.
func printTree(root string) error {
	first := map[uint64]string{}
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return fmt.Errorf("reading %q: %w", path, err)
		}
		words := []string{fmt.Sprintf("%q mode=%o owner=%d:%d time=%d.%09d", strings.TrimPrefix(path, root), stat.Mode,
			stat.Uid, stat.Gid,
			stat.Mtim.Sec, stat.Mtim.Nsec)}
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			sum, err := checksum(path)
			if err != nil {
				return err
			}
			words = append(words, fmt.Sprintf("size=%d sum=%x holes=%t", stat.Size, sum, stat.Blocks*512 < stat.Size/2))
			if stat.Nlink > 1 {
				if first[stat.Ino] == "" {
					first[stat.Ino] = path
				}
				words = append(words, fmt.Sprintf("links=%d same=%q", stat.Nlink, first[stat.Ino]))
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			words = append(words, fmt.Sprintf("target=%q", target))
		}
		attributes, err := attributesOf(path)
		if err != nil {
			return fmt.Errorf("reading the attributes of %q: %w", path, err)
		}
		fmt.Println(strings.Join(append(words, attributes...), " "))
		return nil
	})
}

func checksum(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	return sum.Sum(nil), nil
}

// attributesOf returns the extended attributes of a file in order. It omits the SELinux label,
// which depends on the node.
func attributesOf(path string) ([]string, error) {
	names := make([]byte, 1<<16)
	n, err := unix.Llistxattr(path, names)
	if err != nil {
		return nil, err
	}
	var all []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" || name == "security.selinux" {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("%s=%x", name, value[:n]))
	}
	slices.Sort(all)
	return all, nil
}
