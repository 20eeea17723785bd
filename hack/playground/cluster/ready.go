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

// Deadlines are generous: a loaded machine is slow, a broken one is told apart
// by daemons that ended.
const (
	serverDeadline = 3 * time.Minute
	nodeDeadline   = 3 * time.Minute
)

// WaitForServer returns when the API server says that it is ready.
func (c *Cluster) WaitForServer(ctx context.Context) error {
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return poll(ctx, serverDeadline, func() error {
		return c.checkServer(ctx, client)
	}, func() error {
		return c.checkDaemons(c.ControlPlane(), "etcd", "kube-apiserver")
	})
}

// ServerReady asks the API server once whether it is ready.
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

// get returns an error unless the server answers 200.
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
		return fmt.Errorf("%s answers %s: %s", url, response.Status, lastLine(body))
	}
	return nil
}

// WaitForContainerd returns when containerd of a node takes connections.
func (c *Cluster) WaitForContainerd(ctx context.Context, n *state.Node) error {
	// The socket lies in the node's own /run.
	socket := fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", n.Holder.PID)
	return poll(ctx, nodeDeadline, func() error {
		connection, err := net.Dial("unix", socket)
		if err != nil {
			return fmt.Errorf("containerd on %s: %w", n.Name, err)
		}
		return connection.Close()
	}, func() error {
		return c.checkDaemons(n, "containerd")
	})
}

// WaitForKubelet returns when the kubelet of a node says that it is healthy. The
// API server would call a node Ready for a while after it died.
func (c *Cluster) WaitForKubelet(ctx context.Context, n *state.Node) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		// The kubelet answers on the node's loopback address only.
		DialContext: func(context.Context, string, string) (connection net.Conn, err error) {
			enterErr := sandbox.Enter(n.Holder, false, func() error {
				connection, err = net.Dial("tcp", "127.0.0.1:10248")
				return nil
			})
			return connection, errors.Join(enterErr, err)
		},
	}}
	return poll(ctx, nodeDeadline, func() error {
		return get(ctx, client, "http://127.0.0.1:10248/healthz")
	}, func() error {
		return c.checkDaemons(n, "kubelet")
	})
}

// checkDaemons returns an error that says where to look when a daemon has ended.
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

// Apply writes the cluster's own objects.
func (c *Cluster) Apply(ctx context.Context) error {
	manifests, err := c.Manifests()
	if err != nil {
		return err
	}
	return poll(ctx, serverDeadline, func() error {
		return c.kubectl(ctx, manifests, "apply", "--server-side", "--force-conflicts", "--field-manager=playground", "-f", "-")
	}, func() error {
		return c.checkDaemons(c.ControlPlane(), "kube-apiserver")
	})
}

// WaitReady returns when all nodes are Ready and DNS and storage work.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", "nodes", "--all"},
		{"rollout", "status", "--namespace=kube-system", "deployment/coredns"},
		{"rollout", "status", "--namespace=kube-system", "daemonset/local-provisioner"},
	} {
		err := poll(ctx, nodeDeadline, func() error {
			return c.kubectl(ctx, nil, append(args, "--timeout=5s")...)
		}, c.checkAllDaemons)
		if err != nil {
			return fmt.Errorf("%w\nlook at it with: playground status; playground logs NODE", err)
		}
	}
	return nil
}

func (c *Cluster) checkAllDaemons() error {
	for _, n := range c.Nodes {
		if err := c.checkDaemons(n, c.DaemonNames(n)...); err != nil {
			return err
		}
	}
	return nil
}

// DaemonNames returns what runs on a node, in the order in which it starts.
func (c *Cluster) DaemonNames(n *state.Node) []string {
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

// Kubectl runs kubectl as the cluster's administrator and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Tools.Path("kubectl"), append([]string{"--kubeconfig=" + c.Instance.Kubeconfig(c.Name)}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, lastLine(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// poll calls check until it succeeds, alive fails, or time is up.
func poll(ctx context.Context, deadline time.Duration, check, alive func() error) error {
	timeout := time.NewTimer(deadline)
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
			return errors.Join(fmt.Errorf("not ready after %s", deadline), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func lastLine(data []byte) string {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

// tail is the last line of a log file, or why there is none.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLine(data)
}
