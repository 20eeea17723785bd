// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// CgroupRoot returns the control group of all containers of an instance, or of all instances if the name is
// empty.
func CgroupRoot(instance string) string { return filepath.Join("/liqo-playground", instance) }

func cgroup(i *state.Instance, n *state.Node) string {
	return filepath.Join(CgroupRoot(i.Name), n.Name)
}

// StartNode deletes the ephemeral volumes of a node and starts its sandbox, see package sandbox. It calls record with
// the first process of the sandbox, which waits until record has returned nil.
func (c *Cluster) StartNode(n *state.Node, record func(state.Process) error) error {
	if err := sandbox.MakeCgroup(cgroup(c.Instance, n)); err != nil {
		return err
	}
	if err := os.RemoveAll(c.NodePath(n, ephemeralVolumes)); err != nil {
		return fmt.Errorf("removing ephemeral volumes of %s: %w", n.Name, err)
	}
	covers := []sandbox.Cover{{Target: "/run"}}
	for _, dir := range []string{"/var/lib", "/var/log"} {
		source := c.NodePath(n, dir)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		covers = append(covers, sandbox.Cover{Target: dir, Source: source})
	}
	return sandbox.Start(sandbox.Config{
		Init:     c.Tools.Path("nodeinit"),
		Owner:    c.Instance.Name + "/" + n.Name,
		Hostname: n.Name,
		Covers:   covers,
		Keeps:    []string{c.Instance.Path(), c.Tools.Cache},
		Log:      c.LogPath(n, "init"),
	}, record)
}

// NodeDaemons writes the configuration of a node's daemons and returns the daemons in the order in which they
// must start: containerd, then the kubelet and kube-proxy.
func (c *Cluster) NodeDaemons(n *state.Node) ([]sandbox.Command, error) {
	if err := c.writeNodeKeys(n); err != nil {
		return nil, err
	}
	containerd, err := c.containerd(n)
	if err != nil {
		return nil, err
	}
	kubelet, err := c.kubelet(n)
	if err != nil {
		return nil, err
	}
	proxy, err := c.kubeProxy(n)
	return []sandbox.Command{containerd, kubelet, proxy}, err
}

func (c *Cluster) containerd(n *state.Node) (sandbox.Command, error) {
	config := c.NodePath(n, "etc", "containerd.toml")
	cni := c.NodePath(n, "etc", "cni")
	snapshotter, err := snapshotterFor(c.Instance.Path())
	if err != nil {
		return sandbox.Command{}, err
	}
	var bins []string
	for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
		bins = append(bins, filepath.Dir(c.Tools.Path(plugin)))
	}
	err = writeFile(config, containerdConfig(containerdValues{
		Snapshotter: snapshotter,
		PauseImage:  pauseImage,
		Shim:        c.Tools.Path("containerd-shim-runc-v2"),
		BinDirs:     bins,
		ConfDir:     cni,
		RestrictOOM: !mayRaiseResources(),
	}), 0o644)
	if err != nil {
		return sandbox.Command{}, err
	}
	if err := writeFile(filepath.Join(cni, "10-playground.conflist"), cniConfig(n.PodCIDR), 0o644); err != nil {
		return sandbox.Command{}, err
	}
	command := c.daemon(n, "containerd", []string{config}, "--config="+config)
	command.Path = filepath.Dir(c.Tools.Path("containerd-shim-runc-v2"))
	return command, nil
}

func (c *Cluster) kubelet(n *state.Node) (sandbox.Command, error) {
	dns, err := c.DNS()
	if err != nil {
		return sandbox.Command{}, err
	}
	version, err := sandbox.CgroupVersion()
	if err != nil {
		return sandbox.Command{}, err
	}
	serving := c.nodePair(n, "kubelet-server")
	config, kubeconfig := c.NodePath(n, "etc", "kubelet.yaml"), c.NodePath(n, "etc", "kubelet.kubeconfig")
	err = writeFile(config, kubeletConfig(kubeletValues{
		ClientCA:   c.pair("ca").Cert(),
		Cert:       serving.Cert(),
		Key:        serving.Key(),
		DNS:        dns,
		CgroupRoot: cgroup(c.Instance, n),
		CgroupV1:   version == 1,
	}), 0o644)
	if err != nil {
		return sandbox.Command{}, err
	}
	return c.daemon(n, "kubelet", []string{config, kubeconfig},
		"--config="+config,
		"--kubeconfig="+kubeconfig,
		"--root-dir=/var/lib/kubelet",
		"--hostname-override="+n.Name,
		"--node-ip="+n.Address.String(),
	), nil
}

func (c *Cluster) kubeProxy(n *state.Node) (sandbox.Command, error) {
	config, kubeconfig := c.NodePath(n, "etc", "kube-proxy.yaml"), c.path("kube-proxy.kubeconfig")
	err := writeFile(config, kubeProxyConfig(n.Name, c.KubeProxyMode, c.PodCIDR, kubeconfig), 0o644)
	return c.daemon(n, "kube-proxy", []string{config, kubeconfig}, "--config="+config), err
}

// snapshotterFor returns the snapshotter of containerd for the file system of a directory: native on an overlay
// (for example in a container), where overlayfs does not work, and otherwise overlayfs.
func snapshotterFor(dir string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "", fmt.Errorf("reading the file system of %s: %w", dir, err)
	}
	if s.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// mayRaiseResources reports whether this process has CAP_SYS_RESOURCE, without which no process can get a lower
// out-of-memory score.
func mayRaiseResources() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
