// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strconv"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// ServerDaemons returns etcd and the API server, in the order in which they must start.
func (c *Cluster) ServerDaemons() ([]sandbox.Command, error) {
	apiserver, err := c.apiServer()
	return []sandbox.Command{c.etcd(), apiserver}, err
}

// ManagerDaemons returns the daemons of the control plane that are clients of the API server. They must start
// after it is ready, as some of them exit if their permissions do not exist yet.
func (c *Cluster) ManagerDaemons() ([]sandbox.Command, error) {
	daemons := []sandbox.Command{c.controllerManager(), c.scheduler()}
	if c.FakeNodes > 0 {
		kwok, err := c.kwok()
		if err != nil {
			return nil, err
		}
		daemons = append(daemons, kwok)
	}
	return daemons, nil
}

func (c *Cluster) daemon(n *state.Node, name string, files []string, args ...string) sandbox.Command {
	return sandbox.Command{Name: name, Program: c.Tools.Path(name), Args: args, Files: files, Log: c.LogPath(n, name)}
}

func (c *Cluster) etcd() sandbox.Command {
	n := c.ControlPlane()
	server, ca := c.pair("etcd-server"), c.pair("etcd-ca")
	return c.daemon(n, "etcd", []string{server.Cert()},
		"--name="+n.Name,
		"--data-dir="+c.NodePath(n, "etcd"),
		"--listen-client-urls=https://127.0.0.1:2379",
		"--advertise-client-urls=https://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--cert-file="+server.Cert(),
		"--key-file="+server.Key(),
		"--trusted-ca-file="+ca.Cert(),
		"--client-cert-auth=true",
		// Without fsync, data is lost when the machine fails, but not when etcd is killed.
		"--unsafe-no-fsync="+strconv.FormatBool(!c.Durable),
		"--log-level=warn",
	)
}

func (c *Cluster) apiServer() (sandbox.Command, error) {
	n := c.ControlPlane()
	ca, frontProxyCA, frontProxy := c.pair("ca"), c.pair("front-proxy-ca"), c.pair("front-proxy-client")
	server, kubeletClient, etcd := c.pair("apiserver"), c.pair("apiserver-kubelet-client"), c.pair("etcd-client")
	args := []string{
		"--advertise-address=" + n.Address.String(),
		"--secure-port=6443",
		"--tls-cert-file=" + server.Cert(),
		"--tls-private-key-file=" + server.Key(),
		"--client-ca-file=" + ca.Cert(),
		"--etcd-servers=https://127.0.0.1:2379",
		"--etcd-cafile=" + c.pair("etcd-ca").Cert(),
		"--etcd-certfile=" + etcd.Cert(),
		"--etcd-keyfile=" + etcd.Key(),
		"--service-cluster-ip-range=" + c.ServiceCIDR.String(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path("pki", "sa.pub"),
		"--service-account-signing-key-file=" + c.path("pki", "sa.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--requestheader-client-ca-file=" + frontProxyCA.Cert(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxy.Cert(),
		"--proxy-client-key-file=" + frontProxy.Key(),
		"--enable-aggregator-routing=true",
		"--kubelet-client-certificate=" + kubeletClient.Cert(),
		"--kubelet-client-key=" + kubeletClient.Key(),
		"--kubelet-preferred-address-types=InternalIP",
	}
	files := []string{server.Cert()}
	if c.Audit {
		policy := c.path("audit-policy.yaml")
		if err := writeFile(policy, []byte(auditPolicy), 0o644); err != nil {
			return sandbox.Command{}, err
		}
		files = append(files, policy)
		args = append(args,
			"--audit-policy-file="+policy,
			"--audit-log-path="+c.LogPath(n, "audit"),
			"--audit-log-mode=batch",
			// In megabytes. The log must fit into one file, in which tests count requests.
			"--audit-log-maxsize=100000",
		)
	}
	return c.daemon(n, "kube-apiserver", files, args...), nil
}

func (c *Cluster) controllerManager() sandbox.Command {
	ca, kubeconfig := c.pair("ca"), c.path("controller-manager.kubeconfig")
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.path("pki", "sa.key"),
		"--root-ca-file=" + ca.Cert(),
		"--cluster-signing-cert-file=" + ca.Cert(),
		"--cluster-signing-key-file=" + ca.Key(),
		// The playground allocates the pod CIDRs of nodes itself, as it adds routes to them.
		"--allocate-node-cidrs=false",
	}
	return c.daemon(c.ControlPlane(), "kube-controller-manager", []string{kubeconfig},
		append(args, c.clientLimits()...)...)
}

func (c *Cluster) scheduler() sandbox.Command {
	kubeconfig := c.path("scheduler.kubeconfig")
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
	}
	return c.daemon(c.ControlPlane(), "kube-scheduler", []string{kubeconfig}, append(args, c.clientLimits()...)...)
}

// clientLimits returns the flags that raise the rate limit of a daemon for its API requests if the cluster has fake
// nodes, for benchmarks; otherwise it returns none.
func (c *Cluster) clientLimits() []string {
	if c.FakeNodes == 0 {
		return nil
	}
	return []string{"--kube-api-qps=1000", "--kube-api-burst=1000"}
}

// kwok returns the daemon that runs the fake nodes.
func (c *Cluster) kwok() (sandbox.Command, error) {
	// The lowest subnets of the pod CIDR belong to the nodes that are not fake.
	addresses, err := state.Subnet(c.PodCIDR, c.PodCIDR.Bits()+2, 3)
	if err != nil {
		return sandbox.Command{}, fmt.Errorf("allocating addresses of fake pods: %w", err)
	}
	kubeconfig, stages := c.path("kwok.kubeconfig"), c.path("fake-kubelet.yaml")
	if err := writeFile(stages, fakeKubelet, 0o644); err != nil {
		return sandbox.Command{}, err
	}
	return c.daemon(c.ControlPlane(), "kwok", []string{kubeconfig, stages},
		"--config="+stages,
		"--kubeconfig="+kubeconfig,
		"--manage-nodes-with-label-selector="+fakeNodeLabel,
		"--cidr="+addresses.String(),
		"--node-ip="+c.ControlPlane().Address.String(),
		"--node-lease-duration-seconds=40",
	), nil
}
