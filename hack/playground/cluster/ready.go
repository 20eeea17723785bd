// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// readyDeadline bounds each wait until a part of a cluster is ready. It is long enough for a busy machine. A wait fails
// earlier if a daemon ends.
const readyDeadline = 3 * time.Minute

// WaitForServer waits until the API server is ready. It fails if etcd or the API server ends, or after
// readyDeadline.
func (c *Cluster) WaitForServer(ctx context.Context) error {
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return poll(ctx, func() error {
		return c.checkServer(ctx, client)
	}, func() error {
		return c.checkDaemons(c.ControlPlane(), "etcd", "kube-apiserver")
	})
}

// ServerReady returns an error unless the API server is ready.
func (c *Cluster) ServerReady(ctx context.Context) error {
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.checkServer(ctx, client)
}

func (c *Cluster) httpClient() (*http.Client, error) {
	ca, err := os.ReadFile(c.pair("ca").Cert())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}, nil
}

func (c *Cluster) checkServer(ctx context.Context, client *http.Client) error {
	return get(ctx, client, c.Server()+"/readyz")
}

// get fails unless the response to a GET request has status 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("getting %s: status %s: %s", url, response.Status, lastLine(body))
	}
	return nil
}

// WaitForContainerd waits until containerd on a node accepts connections. It fails if containerd ends, or after
// readyDeadline.
func (c *Cluster) WaitForContainerd(ctx context.Context, n *state.Node) error {
	// The path leads to the socket in the mount namespace of the node.
	socket := fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", n.Holder.PID)
	return poll(ctx, func() error {
		connection, err := net.Dial("unix", socket)
		if err != nil {
			return fmt.Errorf("connecting to containerd on %s: %w", n.Name, err)
		}
		return connection.Close()
	}, func() error {
		return c.checkDaemons(n, "containerd")
	})
}

// WaitForKubelet waits until the kubelet of a node is healthy, which the Node does not show: it stays Ready for
// some time after the kubelet ends. It fails if the kubelet ends, or after readyDeadline.
func (c *Cluster) WaitForKubelet(ctx context.Context, n *state.Node) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		// The kubelet listens on the loopback address of the node.
		DialContext: func(context.Context, string, string) (connection net.Conn, err error) {
			enterErr := sandbox.Enter(n.Holder, false, func() error {
				connection, err = net.Dial("tcp", "127.0.0.1:10248")
				return nil
			})
			return connection, errors.Join(enterErr, err)
		},
	}}
	return poll(ctx, func() error {
		return get(ctx, client, "http://127.0.0.1:10248/healthz")
	}, func() error {
		return c.checkDaemons(n, "kubelet")
	})
}

// checkDaemons returns an error, with the last line of the log, if one of the daemons has ended.
func (c *Cluster) checkDaemons(n *state.Node, names ...string) error {
	running, err := sandbox.Daemons(n.Holder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := running[name]; !ok {
			return fmt.Errorf("%s on %s has ended: %s\nsee %s", name, n.Name, tail(c.LogPath(n, name)), c.LogPath(n, name))
		}
	}
	return nil
}

// Apply creates and updates the objects of Manifests in the cluster.
func (c *Cluster) Apply(ctx context.Context) error {
	manifests, err := c.Manifests()
	if err != nil {
		return err
	}
	return poll(ctx, func() error {
		return c.kubectl(ctx, manifests, "apply", "--server-side", "--force-conflicts",
			"--field-manager=playground", "-f", "-")
	}, func() error {
		return c.checkDaemons(c.ControlPlane(), "kube-apiserver")
	})
}

// WaitReady waits until nodes, DNS and storage are ready. It fails if a daemon ends, or if one of the three is not
// ready within readyDeadline. It does not check PolicyEngine, which starts later.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", "nodes", "--all"},
		{"rollout", "status", "--namespace=kube-system", "deployment/coredns"},
		{"rollout", "status", "--namespace=kube-system", "daemonset/local-provisioner"},
	} {
		err := poll(ctx, func() error {
			return c.kubectl(ctx, nil, append(args, "--timeout=5s")...)
		}, c.checkAllDaemons)
		if err != nil {
			return fmt.Errorf("%w\nsee: playground status; playground logs NODE", err)
		}
	}
	return nil
}

func (c *Cluster) checkAllDaemons() error {
	for _, n := range c.Nodes {
		if err := c.checkDaemons(n, c.clusterDaemons(n)...); err != nil {
			return err
		}
	}
	return nil
}

// DaemonNames returns the names of the daemons of a node, in the order in which they start.
func (c *Cluster) DaemonNames(n *state.Node) []string {
	names := c.clusterDaemons(n)
	if c.NetworkPolicies {
		names = append(names, PolicyEngine)
	}
	return names
}

// clusterDaemons returns the names of the daemons of a node that must run before the cluster is ready.
func (c *Cluster) clusterDaemons(n *state.Node) []string {
	var names []string
	if n == c.ControlPlane() {
		names = append(names, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
		if c.FakeNodes > 0 {
			names = append(names, "kwok")
		}
	}
	return append(names, "containerd", "kubelet", "kube-proxy")
}

func (c *Cluster) kubectl(ctx context.Context, stdin []byte, args ...string) error {
	_, err := c.Kubectl(ctx, stdin, args...)
	return err
}

// Kubectl runs kubectl as the administrator of the cluster, and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Tools.Path("kubectl"),
		append([]string{"--kubeconfig=" + c.Instance.Kubeconfig(c.Name)}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running kubectl %s: %w: %s", strings.Join(args, " "), err, lastLine(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// poll calls check until it succeeds. It fails if alive returns an error, or after readyDeadline.
func poll(ctx context.Context, check, alive func() error) error {
	timeout := time.NewTimer(readyDeadline)
	defer timeout.Stop()
	looked := time.Now()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Since(looked) > time.Second {
			looked = time.Now()
			if err := alive(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return errors.Join(fmt.Errorf("not ready after %s", readyDeadline), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func lastLine(data []byte) string {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

// tail returns the last line of a log file, or the text of the error of reading it.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLine(data)
}
