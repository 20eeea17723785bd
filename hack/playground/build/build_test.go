// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The catalog and the go.mod files of the modules contain the same versions.
func TestVersionsEqualThoseOfTheModules(t *testing.T) {
	for _, tool := range catalog() {
		if tool.module == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join("..", tool.module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		pkg := tool.pkg
		if tool.name == "coredns" {
			// The program is in this repository, and its version is the version of the package that it imports.
			pkg = "github.com/coredns/coredns"
		}
		if !requires(string(data), pkg, tool.version) {
			t.Errorf("%s: %s/go.mod does not require the module of %s at %s", tool.name, tool.module, pkg, tool.version)
		}
	}
}

func requires(mod, pkg, version string) bool {
	for _, line := range strings.Split(mod, "\n") {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[1] == version && (pkg == fields[0] || strings.HasPrefix(pkg, fields[0]+"/")) {
			return true
		}
	}
	return false
}

func TestSelectTools(t *testing.T) {
	all, err := selectTools(nil)
	if err != nil || len(all) != len(catalog()) {
		t.Errorf("got %d programs, %v", len(all), err)
	}
	some, err := selectTools([]string{"etcd", "kubectl"})
	if err != nil || names(some) != "etcd, kubectl" {
		t.Errorf("got %s, %v", names(some), err)
	}
	if _, err := selectTools([]string{"kubeadm"}); err == nil || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Errorf("the error of an unknown program does not name the known ones: %v", err)
	}
}

func TestClustersBuildOnlyTheProgramsThatTheyRun(t *testing.T) {
	for _, test := range []struct{ fakeNodes, networkPolicies bool }{{false, false}, {true, false}, {false, true}} {
		programs := OfClusters(test.fakeNodes, test.networkPolicies)
		if slices.Contains(programs, kwok) != test.fakeNodes ||
			slices.Contains(programs, kubeRouter) != test.networkPolicies ||
			slices.Contains(programs, metricsServer) || !slices.Contains(programs, "kubelet") {
			t.Errorf("%+v: %v", test, programs)
		}
	}
}

func TestProgramsAreBuiltInTheOrderInWhichClustersNeedThem(t *testing.T) {
	programs := OfClusters(true, true)
	last := -1
	for _, name := range []string{
		"nodeinit", "etcd", "kube-apiserver", "kubelet", "containerd", "bridge", kubeRouter, "coredns", kwok, "helm",
	} {
		at := slices.Index(programs, name)
		if at <= last {
			t.Errorf("%s is at position %d of %v", name, at, programs)
		}
		last = at
	}
}

func TestOutputName(t *testing.T) {
	got := map[string]string{}
	for _, pkg := range []string{"k8s.io/kubernetes/cmd/kubectl", "go.etcd.io/etcd/server/v3", "example.org/vault"} {
		got[pkg] = outputName(pkg)
	}
	want := map[string]string{"k8s.io/kubernetes/cmd/kubectl": "kubectl", "go.etcd.io/etcd/server/v3": "server",
		"example.org/vault": "vault"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKeyDependsOnContent(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		h, err := moduleHash(dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	write("go.mod", "module x")
	write("nodeinit/main.go", "package main")
	before := hash()
	write("README.md", "words")
	write("nodeinit/main_test.go", "package main")
	write("other/other.go", "package other")
	if hash() != before {
		t.Error("files that are not built changed the hash")
	}
	write("nodeinit/main.go", "package main // changed")
	after := hash()
	if after == before {
		t.Error("a changed program has the same hash")
	}
	write("go.mod", "module x // changed")
	if hash() == after {
		t.Error("changed requirements have the same hash")
	}
	t1 := tool{name: "a", pkg: "x/a", version: "v1"}
	t2 := t1
	t2.ldflags = "-X y=z"
	if key(t1, before) == key(t2, before) {
		t.Error("flags are not part of the key")
	}
}

func TestProgressCountsPackagesOnly(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	p := newProgress(out, "building x")
	for _, part := range []string{"k8s.io/api/core/v1\nk8s.io",
		"/api/apps/v1\n# example.org/broken\nbroken.go:3:1: syntax error\n"} {
		if _, err := p.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	p.finish(false)
	if p.packages != 2 {
		t.Errorf("counted %d packages", p.packages)
	}
	if diff := cmp.Diff("# example.org/broken\nbroken.go:3:1: syntax error", p.failure()); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "building x: failed in") || strings.Contains(string(text), "\x1b") {
		t.Errorf("got %q", text)
	}
}
