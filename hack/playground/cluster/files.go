// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster creates the keys, the configuration files and the daemons of a cluster, as package state records it.
package cluster

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/pki"
	"liqo.io/federation/hack/playground/state"
)

// Cluster is a cluster of the playground as package state stores it, with the instance that it belongs to, which is the
// set of clusters with a common router, and the paths of the programs that it runs.
type Cluster struct {
	*state.Cluster
	Instance *state.Instance
	Tools    *build.Set
}

// Server returns the URL of the API server.
func (c *Cluster) Server() string {
	return fmt.Sprintf("https://%s:6443", c.ControlPlane().Address)
}

func (c *Cluster) path(elem ...string) string {
	return c.Instance.Path(append([]string{"clusters", c.Name}, elem...)...)
}

func (c *Cluster) pair(name string) pki.Pair { return pki.Pair{Dir: c.path("pki"), Name: name} }

// NodePath returns a path in the state directory of a node.
func (c *Cluster) NodePath(n *state.Node, elem ...string) string {
	return c.Instance.Path(append([]string{"nodes", n.Name}, elem...)...)
}

// LogPath returns the path of the log file of a node's daemon.
func (c *Cluster) LogPath(n *state.Node, daemon string) string {
	return LogPath(c.Instance, n.Name, daemon)
}

// LogPath returns the path of the log file of a daemon on a node. For the sandbox of the router, node is "router".
func LogPath(i *state.Instance, node, daemon string) string {
	return i.Path("logs", node, daemon+".log")
}

// serviceAddress returns an address of the Service CIDR by its index. It fails if the CIDR is too small.
func (c *Cluster) serviceAddress(index int) (string, error) {
	a, err := state.Address(c.ServiceCIDR, index)
	return a.String(), err
}

// DNS returns the address of the DNS Service.
func (c *Cluster) DNS() (string, error) { return c.serviceAddress(10) }

// writeFile writes a file atomically if its content has changed.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".partial"
	if err := os.WriteFile(temporary, data, mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// writeKubeconfig creates the client certificate that r describes, unless it exists at the location client, and writes
// a kubeconfig that contains it.
func (c *Cluster) writeKubeconfig(path string, client pki.Pair, r pki.Request) error {
	if err := pki.Ensure(client, c.pair("ca"), r); err != nil {
		return err
	}
	var encoded [3]string
	for n, file := range []string{c.pair("ca").Cert(), client.Cert(), client.Key()} {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		encoded[n] = base64.StdEncoding.EncodeToString(data)
	}
	return writeFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[1]s
current-context: %[1]s
`, c.Name, c.Server(), encoded[0], encoded[1], encoded[2]), 0o600)
}
