// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"text/template"

	"liqo.io/federation/hack/playground/state"
)

type containerdValues struct {
	Snapshotter, PauseImage, Shim, ConfDir string
	BinDirs                                []string
	RestrictOOM                            bool
}

// Paths below /run and /var/lib are in the mount namespace of the node, see StartNode.
var containerdTemplate = template.Must(template.New("containerd").Parse(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
  address = "/run/containerd/containerd.sock"

[ttrpc]
  address = "/run/containerd/containerd.sock.ttrpc"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{{.Snapshotter}}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{.PauseImage}}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true
  disable_apparmor = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [{{range .BinDirs}}"{{.}}", {{end}}]
  conf_dir = "{{.ConfDir}}"

[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "{{.Shim}}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
`))

func containerdConfig(v containerdValues) []byte { return render(containerdTemplate, v) }

// cniConfig returns the CNI configuration, which connects pods to a bridge on their node. The plugin does not
// masquerade packets, as it cannot exempt packets to the pod CIDRs of other nodes. Package network masquerades them.
func cniConfig(pods netip.Prefix) []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "1.0.0",
  "name": "playground",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "%s"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, pods)
}

type kubeletValues struct {
	ClientCA, Cert, Key, DNS, CgroupRoot string
	CgroupV1                             bool
}

// Eviction and garbage collection of images are disabled: the node uses the disk of the machine, and cannot pull
// a deleted image again.
var kubeletTemplate = template.Must(template.New("kubelet").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: true
  x509:
    clientCAFile: {{.ClientCA}}
authorization:
  mode: Webhook
tlsCertFile: {{.Cert}}
tlsPrivateKeyFile: {{.Key}}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
clusterDNS: [{{.DNS}}]
clusterDomain: cluster.local
resolvConf: ""
cgroupDriver: cgroupfs
cgroupRoot: {{.CgroupRoot}}
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failCgroupV1: {{not .CgroupV1}}
failSwapOn: false
volumeStatsAggPeriod: 10s
evictionHard: {}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
volumePluginDir: /var/lib/kubelet/plugins-exec
serializeImagePulls: false
`))

func kubeletConfig(v kubeletValues) []byte { return render(kubeletTemplate, v) }

// kubeProxyConfig returns the configuration of kube-proxy in a mode, which is iptables if it is empty. kube-proxy must
// not change conntrack limits, which belong to the machine. In both modes, node ports are reachable at every address of
// the node: this is the default in iptables mode only.
func kubeProxyConfig(node, mode string, pods netip.Prefix, kubeconfig string) []byte {
	return fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: %s
clusterCIDR: %s
hostnameOverride: %s
mode: %s
nodePortAddresses: [0.0.0.0/0]
conntrack:
  maxPerCore: 0
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 0s
`, kubeconfig, pods, node, cmp.Or(mode, state.KubeProxyIPTables))
}

// render executes a template of this package. It panics if the template does not match the type of values,
// whatever their content.
func render(t *template.Template, values any) []byte {
	var b bytes.Buffer
	if err := t.Execute(&b, values); err != nil {
		panic(err)
	}
	return b.Bytes()
}
