// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"liqo.io/federation/hack/playground/pki"
	"liqo.io/federation/hack/playground/state"
)

const masters = "system:masters"

// WriteKeys creates the missing keys, certificates and kubeconfigs of all daemons except kubelets, and the
// administrator's kubeconfig.
func (c *Cluster) WriteKeys() error {
	for name, title := range map[string]string{
		"ca":             "kubernetes",
		"front-proxy-ca": "front-proxy-ca",
		"etcd-ca":        "etcd-ca",
	} {
		if err := pki.EnsureAuthority(c.pair(name), title); err != nil {
			return err
		}
	}
	if _, _, err := pki.EnsureKeyPair(c.path("pki"), "sa"); err != nil {
		return err
	}
	kubernetes, err := c.serviceAddress(1)
	if err != nil {
		return err
	}
	for _, cert := range []struct {
		name, authority string
		request         pki.Request
	}{
		{"apiserver", "ca", pki.Request{CommonName: "kube-apiserver", Hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"localhost", "127.0.0.1", kubernetes, c.ControlPlane().Address.String()}}},
		{"apiserver-kubelet-client", "ca", pki.Request{
			CommonName: "kube-apiserver-kubelet-client", Organization: []string{masters}}},
		{"front-proxy-client", "front-proxy-ca", pki.Request{CommonName: "front-proxy-client"}},
		{"etcd-server", "etcd-ca", pki.Request{CommonName: "etcd", Hosts: []string{"localhost", "127.0.0.1"}, Client: true}},
		{"etcd-client", "etcd-ca", pki.Request{CommonName: "kube-apiserver"}},
	} {
		if err := pki.Ensure(c.pair(cert.name), c.pair(cert.authority), cert.request); err != nil {
			return err
		}
	}
	for name, request := range map[string]pki.Request{
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":         {CommonName: "system:kube-proxy"},
		"kwok":               {CommonName: "kwok", Organization: []string{masters}},
		PolicyEngine:         {CommonName: policyUser},
	} {
		if err := c.writeKubeconfig(c.path(name+".kubeconfig"), c.pair(name), request); err != nil {
			return err
		}
	}
	return c.writeKubeconfig(c.Instance.Kubeconfig(c.Name), c.pair("admin"),
		pki.Request{CommonName: "kubernetes-admin", Organization: []string{masters}})
}

// writeNodeKeys creates the serving certificate and the kubeconfig of a node's kubelet, unless they exist.
func (c *Cluster) writeNodeKeys(n *state.Node) error {
	serving := c.nodePair(n, "kubelet-server")
	if err := pki.Ensure(serving, c.pair("ca"), pki.Request{CommonName: "system:node:" + n.Name,
		Organization: []string{"system:nodes"}, Hosts: []string{n.Name, n.Address.String()}}); err != nil {
		return err
	}
	return c.writeKubeconfig(c.NodePath(n, "etc", "kubelet.kubeconfig"), c.nodePair(n, "kubelet-client"),
		pki.Request{CommonName: "system:node:" + n.Name, Organization: []string{"system:nodes"}})
}

func (c *Cluster) nodePair(n *state.Node, name string) pki.Pair {
	return pki.Pair{Dir: c.NodePath(n, "etc"), Name: name}
}
