// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const tag = "liqo.io/hello:dev"

func config(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	binary, data := filepath.Join(dir, "hello"), filepath.Join(dir, "data.txt")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{Tag: tag, Binary: binary, Files: map[string]string{"/etc/hello/b": data, "/etc/hello/a": data},
		Links: map[string]string{"/bin/hi": "/hello"}}
}

func write(t *testing.T, c Config) string {
	t.Helper()
	img, err := Build(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(path, c.Tag, img); err != nil {
		t.Fatal(err)
	}
	return path
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

func TestSameInputResultsInSameBytes(t *testing.T) {
	c := config(t)
	first := sum(t, write(t, c))
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(c.Binary, later, later); err != nil {
		t.Fatal(err)
	}
	if sum(t, write(t, c)) != first {
		t.Error("a file's time changed the image")
	}
	if err := os.WriteFile(c.Binary, []byte("another program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if sum(t, write(t, c)) == first {
		t.Error("another program gave the same image")
	}
}

func TestArchiveContainsProgramFilesAndLinks(t *testing.T) {
	path := write(t, config(t))
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/hello"}, file.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if file.Config.User != NonRoot {
		t.Errorf("runs as %q", file.Config.User)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 1 {
		t.Fatalf("got %d layers", len(layers))
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	got := map[string]string{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if _, err := io.Copy(&text, r); err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.FileInfo().Mode().String() + " " + h.Linkname + text.String()
	}
	delete(got, "etc/passwd")
	if diff := cmp.Diff(map[string]string{
		"bin/":        "drwxr-xr-x ",
		"bin/hi":      "Lrwxrwxrwx /hello",
		"etc/":        "drwxr-xr-x ",
		"etc/hello/":  "drwxr-xr-x ",
		"etc/hello/a": "-rw-r--r-- data",
		"etc/hello/b": "-rw-r--r-- data",
		"hello":       "-rwxr-xr-x program",
		"tmp/":        "dtrwxrwxrwx ",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadReturnsTagAndID(t *testing.T) {
	c := config(t)
	first, err := Read(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{tag}, first.Tags); diff != "" {
		t.Error(diff)
	}
	c.User = "0:0"
	second, err := Read(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if first.ID == second.ID {
		t.Error("images with different users have the same ID")
	}
}

func TestInvalidInputIsRefused(t *testing.T) {
	good := config(t)
	for name, test := range map[string]struct {
		change func(*Config)
		reason string
	}{
		"a short tag":      {func(c *Config) { c.Tag = "hello" }, "image tag"},
		"a missing binary": {func(c *Config) { c.Binary = "/does/not/exist" }, "no such file"},
		"a directory":      {func(c *Config) { c.Binary = filepath.Dir(good.Binary) }, "no regular file"},
		"a missing file":   {func(c *Config) { c.Files = map[string]string{"/x": "/does/not/exist"} }, "image file /x"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			if _, err := Build(t.Context(), c); err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Fatalf("want %q, got %v", test.reason, err)
			}
		})
	}
	if _, err := Read(good.Binary); err == nil {
		t.Error("a program was read as an image")
	}
}

func TestDependenciesAreFirstAlternatives(t *testing.T) {
	depends := parseDepends(`stunnel4
  PreDepends: adduser
  Depends: libc6
  Depends: libsystemd0
    libelogind0
 |Depends: systemd
  Depends: <systemd-sysusers>
    opensysusers
    systemd
  Depends: <perl:any>
    perl
  Depends: netbase
adduser
  Depends: passwd
passwd
libc6
libsystemd0
libelogind0
<systemd-sysusers>
systemd
  Depends: mount
mount
  Depends: libc6
opensysusers
<perl:any>
perl
 |Depends: <debconf-2.0>
    cdebconf
    debconf
  Depends: debconf
  Depends: libc6
netbase
`)
	for name, test := range map[string]struct{ without, want []string }{
		"all": {nil, []string{"adduser", "cdebconf", "libc6", "libsystemd0", "mount", "netbase", "passwd", "perl",
			"stunnel4", "systemd"}},
		"without maintainer scripts": {[]string{"adduser", "perl", "systemd"},
			[]string{"libc6", "libsystemd0", "netbase", "stunnel4"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, closure(depends, []string{"stunnel4"}, test.without)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
