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
	"os/exec"
	"path/filepath"
	"slices"
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

func digest(t *testing.T, path string) string {
	t.Helper()
	digest, err := Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

// The inputs differ in their directories, times and permissions.
func TestSameContentInTwoDirectoriesResultsInSameBytes(t *testing.T) {
	first, second := config(t), config(t)
	later := time.Now().Add(time.Hour)
	for _, path := range []string{second.Binary, second.Files["/etc/hello/a"], filepath.Dir(second.Binary)} {
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(second.Binary, 0o700), os.Chmod(second.Files["/etc/hello/a"], 0o644)); err != nil {
		t.Fatal(err)
	}
	one, two := write(t, first), write(t, second)
	if sum(t, one) != sum(t, two) {
		t.Error("the archives differ")
	}
	if digest(t, one) != digest(t, two) {
		t.Error("the digests differ")
	}
	if err := os.WriteFile(second.Binary, []byte("another program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if digest(t, write(t, second)) == digest(t, one) {
		t.Error("another program has the same digest")
	}
}

func TestUnpackedPackagesResultInSameLayer(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not in PATH; install the package dpkg")
	}
	dir := t.TempDir()
	var archives []string
	for name, version := range map[string]string{"hello": "1:2.0-1+b1", "libhello1": "1.0"} {
		source := filepath.Join(dir, name)
		files := map[string]string{
			"DEBIAN/control": "Package: " + name + "\nVersion: " + version + "\nArchitecture: all\n" +
				"Maintainer: Hello <hello@example.com>\nDescription: hello\n",
			"usr/bin/" + name: name, "usr/share/doc/" + name + "/copyright": "text",
		}
		for path, text := range files {
			path = filepath.Join(source, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		archive := filepath.Join(dir, name+"_"+strings.ReplaceAll(version, ":", "%3a")+"_all.deb")
		if _, err := run(t.Context(), "", "dpkg-deb", "--build", "--root-owner-group", source, archive); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	unpacked := func() (tree *fileTree, digest string) {
		t.Helper()
		tree, err := unpack(t.Context(), archives, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		layer, err := tree.layer()
		if err != nil {
			t.Fatal(err)
		}
		hash, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return tree, hash.String()
	}
	tree, first := unpacked()
	slices.Reverse(archives)
	if _, second := unpacked(); second != first {
		t.Error("the layers differ")
	}
	var got []string
	for name, e := range tree.entries {
		if e.kind == tar.TypeReg {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	want := []string{"etc/os-release", "usr/bin/hello", "usr/bin/libhello1", "var/lib/dpkg/status.d/hello",
		"var/lib/dpkg/status.d/libhello1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if control := string(tree.entries["var/lib/dpkg/status.d/hello"].content); !strings.Contains(
		control, "Version: 1:2.0-1+b1\n") {
		t.Errorf("the control file has another version:\n%s", control)
	}
}

// Programs that push an archive, for example crane, read the image as Digest does.
func TestDigestIsThatOfTheBuiltImage(t *testing.T) {
	c := config(t)
	img, err := Build(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := digest(t, write(t, c)); got != want.String() {
		t.Errorf("got %s, want %s", got, want)
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
	if _, err := Digest(good.Binary); err == nil {
		t.Error("a program has the digest of an image")
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
