// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/hack/playground/image"
)

const (
	tag     = "liqo.io/hello:v1"
	control = "Package: libcap2\nSource: cap (1:2.66-4)\nVersion: 1:2.66-4+b1\nArchitecture: amd64\n" +
		"Description: capabilities\n Version: 9\n"
	release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n"
)

// pack writes an image with a program to a docker archive, and returns its path.
func pack(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{}
	for path, text := range map[string]string{
		image.ReleaseFile: release, image.PackageDir + "/libcap2": control,
		image.PackageDir + "/iptables": "Package: iptables\nVersion: 1.8.9-2\nArchitecture: amd64\n",
	} {
		files[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(files[path], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := image.Build(t.Context(), image.Config{Tag: tag, Binary: program, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "image.tar")
	if err := image.Write(archive, tag, img); err != nil {
		t.Fatal(err)
	}
	return archive
}

// testProgram returns the path of this test, a program whose build information lists no module but the standard
// library.
func testProgram(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestDocumentListsProgramModulesAndPackages(t *testing.T) {
	archive, created := pack(t, testProgram(t)), time.Unix(1_700_000_000, 0)
	text, err := FromArchive(archive, created)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if want := "2023-11-14T22:13:20Z"; d.CreationInfo.Created != want {
		t.Errorf("created at %s, want %s", d.CreationInfo.Created, want)
	}
	digest, err := image.Digest(archive)
	if err != nil {
		t.Fatal(err)
	}
	want := element{
		Name: "hello", ID: "SPDXRef-Image-hello", Version: "v1", Purpose: "CONTAINER", DownloadLocation: "NOASSERTION",
		Checksums: []checksum{{Algorithm: "SHA256", Value: strings.TrimPrefix(digest, "sha256:")}},
		ExternalRefs: []externalRef{{Category: "PACKAGE-MANAGER", Type: "purl",
			Locator: "pkg:oci/hello@" + digest + "?arch=" + runtime.GOARCH + "&repository_url=liqo.io%2Fhello&tag=v1"}},
	}
	if diff := cmp.Diff(want, d.Packages[0]); diff != "" {
		t.Errorf("package of the image (-want +got):\n%s", diff)
	}
	ids := map[string]bool{documentID: true}
	for _, p := range d.Packages {
		ids[p.ID] = true
	}
	for _, r := range d.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("a relationship has an unknown element: %v", r)
		}
	}
	const program = "SPDXRef-Program-liqo.io-federation-hack-playground-sbom.test"
	for _, want := range []relationship{
		{documentID, "DESCRIBES", "SPDXRef-Image-hello"},
		{"SPDXRef-Image-hello", "CONTAINS", program},
		{program, "DEPENDS_ON", "SPDXRef-Go-stdlib"},
		{"SPDXRef-Image-hello", "CONTAINS", "SPDXRef-Deb-iptables"},
		{"SPDXRef-Image-hello", "CONTAINS", "SPDXRef-Deb-libcap2"},
	} {
		if !slices.Contains(d.Relationships, want) {
			t.Errorf("the document has no relationship %v", want)
		}
	}
}

func TestSameImageAndTimeResultInSameBytes(t *testing.T) {
	marshalled := func(created time.Time) string {
		t.Helper()
		text, err := FromArchive(pack(t, testProgram(t)), created)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := marshalled(time.Unix(0, 0))
	if diff := cmp.Diff(first, marshalled(time.Unix(0, 0).In(time.FixedZone("", 3600)))); diff != "" {
		t.Errorf("the same image and time (-first +second):\n%s", diff)
	}
	namespace := func(text string) string {
		t.Helper()
		var d document
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		return d.Namespace
	}
	if namespace(first) == namespace(marshalled(time.Unix(1, 0))) {
		t.Error("two documents have the same namespace")
	}
}

func TestProgramWithoutBuildInformationIsRefused(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hello")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := FromArchive(pack(t, program), time.Unix(0, 0))
	if err == nil || !strings.Contains(err.Error(), "reading the build information of /hello") {
		t.Fatalf("got %v", err)
	}
}

func TestImageOfOtherFormIsRefused(t *testing.T) {
	if _, err := FromArchive(testProgram(t), time.Unix(0, 0)); err == nil {
		t.Error("a program was read as an image")
	}
}

func TestModulesOfAProgram(t *testing.T) {
	const stdlib = "stdlib 1.26.8 pkg:golang/stdlib@1.26.8"
	for name, test := range map[string]struct {
		modules []*debug.Module
		want    []string
	}{
		"no module": {nil, []string{stdlib}},
		"a module": {[]*debug.Module{{Path: "github.com/spf13/cobra", Version: "v1.10.2"}},
			[]string{stdlib, "github.com/spf13/cobra v1.10.2 pkg:golang/github.com/spf13/cobra@v1.10.2"}},
		"an incompatible version": {[]*debug.Module{{Path: "example.com/a", Version: "v2.0.0+incompatible"}},
			[]string{stdlib, "example.com/a v2.0.0+incompatible pkg:golang/example.com/a@v2.0.0%2Bincompatible"}},
		"a replaced module": {[]*debug.Module{{Path: "example.com/a", Version: "v1.0.0",
			Replace: &debug.Module{Path: "example.com/b", Version: "v1.0.1"}}},
			[]string{stdlib, "example.com/b v1.0.1 pkg:golang/example.com/b@v1.0.1"}},
		"a module replaced by a directory": {[]*debug.Module{{Path: "example.com/a", Version: "v1.0.0",
			Replace: &debug.Module{Path: "./a"}}},
			[]string{stdlib, "example.com/a v1.0.0 pkg:golang/example.com/a@v1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range modules(&debug.BuildInfo{GoVersion: "go1.26.8", Deps: test.modules}) {
				got = append(got, p.Name+" "+p.Version+" "+p.ExternalRefs[0].Locator)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProgramHasVersionOfItsImage(t *testing.T) {
	for name, test := range map[string]struct{ path, want string }{
		"in a directory of its module": {"example.com/a/cmd/hello", "pkg:golang/example.com/a@v1#cmd/hello"},
		"at the top of its module":     {"example.com/a", "pkg:golang/example.com/a@v1"},
	} {
		t.Run(name, func(t *testing.T) {
			module := debug.Module{Path: "example.com/a", Version: "(devel)"}
			p := programOf(&debug.BuildInfo{Path: test.path, Main: module}, "v1")
			if p.Version != "v1" || p.ExternalRefs[0].Locator != test.want {
				t.Errorf("got version %s, URL %s, want v1, %s", p.Version, p.ExternalRefs[0].Locator, test.want)
			}
		})
	}
}

func TestDebianPackages(t *testing.T) {
	for name, test := range map[string]struct{ control, release, url, source string }{
		"of another source, with an epoch": {control, release,
			"pkg:deb/debian/libcap2@1:2.66-4%2Bb1?arch=amd64&distro=debian-12",
			"built from the source package cap 1:2.66-4"},
		"of a source with its name": {"Package: libpcre2-8-0\nVersion: 10.42-1+deb12u1\nArchitecture: all\n", release,
			"pkg:deb/debian/libpcre2-8-0@10.42-1%2Bdeb12u1?arch=all&distro=debian-12",
			"built from the source package libpcre2-8-0 10.42-1+deb12u1"},
		"of a source with its version": {"Package: libip4tc2\nSource: iptables\nVersion: 1.8.9-2\nArchitecture: amd64\n",
			release, "pkg:deb/debian/libip4tc2@1.8.9-2?arch=amd64&distro=debian-12",
			"built from the source package iptables 1.8.9-2"},
		"of another distribution": {"Package: a\nVersion: 1~rc1\nArchitecture: amd64\n", "ID=ubuntu\nVERSION_ID=\"24.04\"\n",
			"pkg:deb/ubuntu/a@1~rc1?arch=amd64&distro=ubuntu-24.04", "built from the source package a 1~rc1"},
		"of an unknown distribution": {"Package: libstdc++6\nVersion: 12\nArchitecture: amd64\n", "",
			"pkg:deb/debian/libstdc%2B%2B6@12?arch=amd64", "built from the source package libstdc++6 12"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := debianPackage(test.control, fields(test.release, "="))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.url, test.source}, []string{p.ExternalRefs[0].Locator, p.SourceInfo}); diff != "" {
				t.Errorf("URL and source (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := debianPackage("Package: a\n", nil); err == nil {
		t.Error("a control file without a version was accepted")
	}
}

func TestPackagesWithTheSameIDAreRefused(t *testing.T) {
	d := newDocument("hello", time.Unix(0, 0), newElement("Go", "example.com/a-b", "v1", "pkg:golang/a"))
	d.add(documentID, "DESCRIBES", newElement("Go", "example.com/a/b", "v1", "pkg:golang/b"))
	if _, err := d.marshal(); err == nil || !strings.Contains(err.Error(), "SPDXRef-Go-example.com-a-b") {
		t.Errorf("got %v", err)
	}
}
