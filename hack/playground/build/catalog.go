// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package build builds the programs of the playground from Go modules. It stores them in the user's cache
// directory, by version and a hash of their sources and flags.
package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Versions of the programs, for paths and flags. They must equal the versions in the go.mod files of the modules.
const (
	kubernetesVersion = "v1.37.1"
	etcdVersion       = "v3.7.0"
	containerdVersion = "v2.4.2"
	cniVersion        = "v1.9.1"
	corednsVersion    = "v1.15.0"
	helmVersion       = "v3.22.0"
	kwokVersion       = "v0.8.0"
	kubeRouterVersion = "v2.1.0"
	metricsVersion    = "v0.9.0"
	ownVersion        = "v1"
)

// tool is a program to build.
type tool struct {
	name    string
	module  string // directory below hack/playground; "" is the playground itself
	pkg     string
	version string
	tags    string
	ldflags string
}

// catalog returns the programs in the order in which up needs them, and so in the order in which they are built: the
// nodes, the control plane, containers and their network, add-ons, and programs of single tests. Programs of one module
// are sorted by name, because one command builds them.
func catalog() []tool {
	const containerd = "github.com/containerd/containerd/v2"
	const cni = "github.com/containernetworking/plugins"
	const kubeRouterModule = "github.com/cloudnativelabs/kube-router/v2"
	var tools []tool
	add := func(t tool, pkgs map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(pkgs)) {
			t.name, t.pkg = name, pkgs[name]
			tools = append(tools, t)
		}
	}
	add(tool{version: ownVersion},
		map[string]string{
			"nodeinit":          "liqo.io/federation/hack/playground/nodeinit",
			"local-provisioner": "liqo.io/federation/hack/playground/volumes",
		})
	add(tool{module: "modules/kubernetes", version: etcdVersion},
		map[string]string{"etcd": "go.etcd.io/etcd/server/v3"})
	add(tool{module: "modules/kubernetes", version: kubernetesVersion,
		ldflags: "-X k8s.io/component-base/version.gitVersion=" + kubernetesVersion},
		map[string]string{
			"agnhost":                 "k8s.io/kubernetes/test/images/agnhost",
			"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
			"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
			"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
			"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
			"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
			"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
		})
	add(tool{module: "modules/containerd", version: containerdVersion, tags: "no_btrfs no_devmapper no_zfs",
		ldflags: "-X " + containerd + "/version.Version=" + containerdVersion},
		map[string]string{
			"containerd":              containerd + "/cmd/containerd",
			"containerd-shim-runc-v2": containerd + "/cmd/containerd-shim-runc-v2",
			"ctr":                     containerd + "/cmd/ctr",
		})
	add(tool{module: "modules/cni", version: cniVersion,
		ldflags: "-X " + cni + "/pkg/utils/buildversion.BuildVersion=" + cniVersion},
		map[string]string{
			"bridge":     cni + "/plugins/main/bridge",
			"host-local": cni + "/plugins/ipam/host-local",
			"loopback":   cni + "/plugins/main/loopback",
			"portmap":    cni + "/plugins/meta/portmap",
		})
	add(tool{module: "modules/kube-router", version: kubeRouterVersion,
		ldflags: "-X " + kubeRouterModule + "/pkg/version.Version=" + kubeRouterVersion},
		map[string]string{kubeRouter: kubeRouterModule + "/cmd/kube-router"})
	add(tool{module: "modules/coredns", version: corednsVersion},
		map[string]string{"coredns": "liqo.io/federation/hack/playground/modules/coredns"})
	add(tool{module: "modules/kwok", version: kwokVersion,
		ldflags: "-X sigs.k8s.io/kwok/pkg/consts.Version=" + kwokVersion},
		map[string]string{kwok: "sigs.k8s.io/kwok/cmd/kwok"})
	add(tool{module: "modules/helm", version: helmVersion,
		ldflags: "-X helm.sh/helm/v3/internal/version.version=" + helmVersion},
		map[string]string{"helm": "helm.sh/helm/v3/cmd/helm"})
	add(tool{module: "modules/metrics-server", version: metricsVersion},
		map[string]string{metricsServer: "sigs.k8s.io/metrics-server/cmd/metrics-server"})
	return tools
}

// kwok runs the fake nodes, and kubeRouter enforces NetworkPolicies. metricsServer is an example of an aggregated API,
// which tests install.
const kwok, kubeRouter, metricsServer = "kwok", "kube-router", "metrics-server"

// OfClusters returns the names of the programs that clusters run, including kwok if fakeNodes is set, and kube-router
// if networkPolicies is set.
func OfClusters(fakeNodes, networkPolicies bool) []string {
	omitted := map[string]bool{metricsServer: true, kwok: !fakeNodes, kubeRouter: !networkPolicies}
	var names []string
	for _, t := range catalog() {
		if !omitted[t.name] {
			names = append(names, t.name)
		}
	}
	return names
}

// selectTools returns the named tools, or all tools if there are no names. It fails for an unknown name.
func selectTools(names []string) ([]tool, error) {
	all := catalog()
	if len(names) == 0 {
		return all, nil
	}
	byName := map[string]tool{}
	var known []string
	for _, t := range all {
		byName[t.name] = t
		known = append(known, t.name)
	}
	slices.Sort(known)
	var selected []tool
	for _, name := range names {
		t, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("unknown program %q; the programs are %s", name, strings.Join(known, ", "))
		}
		selected = append(selected, t)
	}
	return selected, nil
}
