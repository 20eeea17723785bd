// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"text/template"
)

// Fake nodes have this label and this taint. A pod runs on them only if it selects the label and tolerates the
// taint.
const (
	fakeLabelKey   = "type"
	fakeLabelValue = "kwok"
	fakeNodeLabel  = fakeLabelKey + "=" + fakeLabelValue
	fakeTaint      = "playground.liqo.io/fake"
)

// Directories of volumes, in the mount namespace of a node.
const (
	localVolumes = "/var/lib/playground-volumes"
	// ephemeralVolumes is deleted each time before its node starts.
	ephemeralVolumes = "/var/lib/playground-ephemeral-volumes"
)

//go:embed addons/*.yaml
var addons embed.FS

var addonTemplates = template.Must(template.ParseFS(addons, "addons/*.yaml"))

//go:embed fake-kubelet.yaml
var fakeKubelet []byte

type addonValues struct {
	CoreDNSImage, ProvisionerImage, DNS     string
	VolumeDirectories                       []volumeDirectory
	Nodes                                   []addonNode
	FakeNodes                               []string
	FakeLabelKey, FakeLabelValue, FakeTaint string
}

// volumeDirectory is the parent directory of all volumes of a kind.
type volumeDirectory struct{ Kind, Path string }

type addonNode struct {
	Name                  string
	PodCIDR               netip.Prefix
	ControlPlane, Tainted bool
}

// sharedVolumes returns the directory for volumes that all nodes of the cluster mount. It has the same path on
// nodes and on the machine.
func (c *Cluster) sharedVolumes() string { return c.path("shared-volumes") }

// Manifests returns the objects that a new cluster requires: nodes, DNS and storage and, if the cluster enforces
// NetworkPolicies, the ClusterRole of PolicyEngine and its binding.
func (c *Cluster) Manifests() ([]byte, error) {
	dns, err := c.DNS()
	if err != nil {
		return nil, err
	}
	values := addonValues{
		CoreDNSImage: corednsImage, ProvisionerImage: provisionerImage, DNS: dns,
		VolumeDirectories: []volumeDirectory{
			{"local", localVolumes}, {"ephemeral", ephemeralVolumes}, {"shared", c.sharedVolumes()},
		},
		FakeLabelKey: fakeLabelKey, FakeLabelValue: fakeLabelValue, FakeTaint: fakeTaint,
	}
	for n, node := range c.Nodes {
		values.Nodes = append(values.Nodes, addonNode{
			Name: node.Name, PodCIDR: node.PodCIDR, ControlPlane: n == 0,
			// A cluster without workers runs all pods on the control plane.
			Tainted: n == 0 && len(c.Nodes) > 1,
		})
	}
	for n := range c.FakeNodes {
		values.FakeNodes = append(values.FakeNodes, fmt.Sprintf("%s-fake-%d", c.Name, n+1))
	}
	var out bytes.Buffer
	for _, name := range []string{"nodes.yaml", "coredns.yaml", "storage.yaml"} {
		out.WriteString("---\n")
		out.Write(render(addonTemplates.Lookup(name), values))
	}
	if c.NetworkPolicies {
		out.WriteString("---\n")
		out.Write(policyManifest())
	}
	return out.Bytes(), nil
}
