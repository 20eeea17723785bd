// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDataDirectoryIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	dir, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("got mode %o, want 700", got)
	}
}

func TestDataDirectoryIsUsedByOneProcess(t *testing.T) {
	path := t.TempDir()
	first, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(path); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Fatalf("got error %v for a directory in use", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openDataDir(path)
	if err != nil {
		t.Fatalf("the directory is not free after close: %v", err)
	}
	second.close()
}

func TestUnusableDataDirectoryIsRefusedWithTheRemedy(t *testing.T) {
	tests := map[string]struct {
		path func(t *testing.T) string
		want string
	}{
		"a file": {
			path: func(t *testing.T) string {
				path := filepath.Join(t.TempDir(), "data")
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			},
			want: "is a file: remove that file",
		},
		"beneath a file": {
			path: func(t *testing.T) string {
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return filepath.Join(path, "data")
			},
			want: "is a file: remove that file",
		},
		"too long for a socket": {
			path: func(t *testing.T) string { return filepath.Join(t.TempDir(), strings.Repeat("x", maxDataDir)) },
			want: "use a shorter path",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir, err := openDataDir(test.path(t))
			if err == nil {
				dir.close()
				t.Fatal("it was accepted")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %q, want one line with %q", err, test.want)
			}
		})
	}
}

func TestErrorsOfTheFileSystemAreExplained(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"read-only":          {unix.EROFS, "read-only file system"},
		"permission":         {unix.EACCES, "is not permitted to write to it"},
		"no space":           {unix.ENOSPC, "is full"},
		"quota":              {unix.EDQUOT, "is full"},
		"a file as a parent": {unix.ENOTDIR, "is a file"},
		"anything else":      {unix.EIO, "input/output error"},
		"wrapped read-only":  {&fs.PathError{Op: "open", Path: "/data/lock", Err: unix.EROFS}, "read-only file system"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := explain("/data", test.err).Error()
			if !strings.Contains(got, test.want) || !strings.Contains(got, "/data") {
				t.Errorf("got %q, want /data and %q in it", got, test.want)
			}
		})
	}
}
