// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster turns the record of a cluster into keys, configuration files
// and the daemons that its nodes run.
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

// Cluster is a recorded cluster together with what is needed to run it.
type Cluster struct {
	*state.Cluster
	Instance *state.Instance
	Tools    *build.Set
}

// Server is the URL of the cluster's API server.
func (c *Cluster) Server() string {
	return fmt.Sprintf("https://%s:6443", c.ControlPlane().Address)
}

func (c *Cluster) path(elem ...string) string {
	return c.Instance.Path(append([]string{"clusters", c.Name}, elem...)...)
}

func (c *Cluster) pair(name string) pki.Pair { return pki.Pair{Dir: c.path("pki"), Name: name} }

// NodePath is a path in the directory of one node.
func (c *Cluster) NodePath(n *state.Node, elem ...string) string {
	return c.Instance.Path(append([]string{"nodes", n.Name}, elem...)...)
}

// LogPath is the log file of a node's daemon.
func (c *Cluster) LogPath(n *state.Node, daemon string) string {
	return LogPath(c.Instance, n.Name, daemon)
}

// LogPath is the log file of a daemon. The router counts as a node.
func LogPath(i *state.Instance, node, daemon string) string {
	return i.Path("logs", node, daemon+".log")
}

// serviceAddress is the index-th address of the cluster's Services.
func (c *Cluster) serviceAddress(index int) (string, error) {
	a, err := state.Address(c.ServiceCIDR, index)
	return a.String(), err
}

// DNS is the address of the cluster's DNS Service.
func (c *Cluster) DNS() (string, error) { return c.serviceAddress(10) }

// writeFile writes a file only if its content changes, in one step.
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

// writeKubeconfig makes a client certificate and the kubeconfig that holds it.
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
