// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForbiddenImportsAreReported(t *testing.T) {
	const none = ""
	for _, tc := range []struct {
		name string
		pkg  pkg
		want string
	}{
		{
			name: "the API types may import Kubernetes",
			pkg:  pkg{ImportPath: module + "/apiserver/apis/federation", Imports: []string{"k8s.io/apimachinery/pkg/runtime"}},
			want: none,
		},
		{
			name: "the API types may not import pure functions",
			pkg:  pkg{ImportPath: module + "/apiserver/apis/federation", Imports: []string{module + "/apiserver/naming"}},
			want: "apiserver/apis/federation: imports apiserver/naming, which apiserver/apis may not",
		},
		{
			name: "pure functions may import the API types",
			pkg: pkg{ImportPath: module + "/apiserver/naming",
				Imports: []string{module + "/apiserver/apis/federation/v1alpha1"}},
			want: none,
		},
		{
			name: "a registry may not import the server that installs it",
			pkg:  pkg{ImportPath: module + "/registry/federation/rest", Imports: []string{module + "/apiserver/server"}},
			want: "registry/federation/rest: imports apiserver/server, which registry may not",
		},
		{
			name: "a controller may not import a registry",
			pkg: pkg{ImportPath: module + "/controllers/consumer/peering",
				Imports: []string{module + "/registry/federation/rest"}},
			want: "controllers/consumer/peering: imports registry/federation/rest, which controllers may not",
		},
		{
			name: "a controller may import a shared package",
			pkg:  pkg{ImportPath: module + "/controllers/consumer/peering", Imports: []string{module + "/controllers/remote"}},
			want: none,
		},
		{
			name: "a controller of a consumer may not import one of a provider",
			pkg: pkg{
				ImportPath: module + "/controllers/consumer/offloading",
				Imports:    []string{module + "/controllers/provider/namespace"},
			},
			want: "controllers/consumer/offloading: imports controllers/provider/namespace, which controllers/consumer may not",
		},
		{
			name: "steps of a peering may import their controller, which both sides run alike",
			pkg: pkg{
				ImportPath: module + "/controllers/provider/peering",
				Imports:    []string{module + "/controllers/link/foreigncluster"},
			},
			want: none,
		},
		{
			name: "a controller of both sides may not import one of a consumer",
			pkg: pkg{
				ImportPath: module + "/controllers/link/foreigncluster",
				Imports:    []string{module + "/controllers/consumer/peering"},
			},
			want: "controllers/link/foreigncluster: imports controllers/consumer/peering, which controllers/link may not",
		},
		{
			name: "controllers of one side may import each other",
			pkg: pkg{
				ImportPath: module + "/controllers/storage/move", Imports: []string{module + "/controllers/storage/consumer"},
			},
			want: none,
		},
		{
			name: "a path with the prefix of a layer does not belong to it",
			pkg:  pkg{ImportPath: module + "/registryx", Imports: nil},
			want: "registryx: belongs to no layer; add it to layers in hack/tools/checkimports",
		},
		{
			name: "netagent may not depend on the API server library, even indirectly",
			pkg:  pkg{ImportPath: module + "/netagent/model", Deps: []string{"k8s.io/apiserver/pkg/server"}},
			want: "netagent/model: depends on k8s.io/apiserver/pkg/server, which netagent may not",
		},
		{
			name: "a virtual kubelet may not depend on metrics that only the controller manager serves",
			pkg: pkg{ImportPath: module + "/controllers/virtualkubelet/queue",
				Deps: []string{module + "/controllers/metrics"}},
			want: "controllers/virtualkubelet/queue: depends on " + module +
				"/controllers/metrics, which controllers/virtualkubelet may not",
		},
		{
			name: "only the kernel package may import netlink",
			pkg:  pkg{ImportPath: module + "/netagent/apply", Imports: []string{"github.com/vishvananda/netlink"}},
			want: "netagent/apply: imports github.com/vishvananda/netlink, which only netagent/kernel may",
		},
		{
			name: "the kernel package may import netlink",
			pkg:  pkg{ImportPath: module + "/netagent/kernel", Imports: []string{"github.com/vishvananda/netlink"}},
			want: none,
		},
		{
			name: "only the virtual kubelet imports virtual-kubelet",
			pkg: pkg{ImportPath: module + "/controllers/provider/offer",
				Imports: []string{"github.com/virtual-kubelet/virtual-kubelet/node"}},
			want: "controllers/provider/offer: imports github.com/virtual-kubelet/virtual-kubelet/node, which only " +
				"controllers/virtualkubelet may",
		},
		{
			name: "only the remote package loads a kubeconfig",
			pkg: pkg{ImportPath: module + "/controllers/consumer/peering",
				Imports: []string{"k8s.io/client-go/tools/clientcmd"}},
			want: "controllers/consumer/peering: imports clientcmd, which only controllers/remote may",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want []string
			if tc.want != none {
				want = []string{tc.want}
			}
			if diff := cmp.Diff(want, check([]pkg{tc.pkg})); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientConfigurationsOutsideRemoteAreReported(t *testing.T) {
	dir := t.TempDir()
	source := "package p\n\nimport \"k8s.io/client-go/rest\"\n\nvar c = rest.CopyConfig(&rest.Config{})\n"
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	found := func(path string) []string {
		return check([]pkg{{ImportPath: module + path, Dir: dir, GoFiles: []string{"p.go"},
			Imports: []string{"k8s.io/client-go/rest"}}})
	}
	want := []string{"controllers/consumer/peering: creates a rest.Config at p.go:5, which only controllers/remote may"}
	if diff := cmp.Diff(want, found("/controllers/consumer/peering")); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if got := found("/controllers/remote"); got != nil {
		t.Errorf("got violations of controllers/remote %q, want none", got)
	}
}
