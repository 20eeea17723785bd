// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/federation/generated/clientset/versioned"
)

// Cluster has clients of one cluster with the credentials of its administrator.
type Cluster struct {
	Name       string
	Kubeconfig string
	// Config has no client-side rate limit.
	Config     *rest.Config
	Kube       kubernetes.Interface
	Federation versioned.Interface

	playground *Playground
}

// Connect creates the clients of the cluster with this name.
func (p *Playground) Connect(name string) (*Cluster, error) {
	path := p.Kubeconfig(name)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %s: %w", name, err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	c := &Cluster{Name: name, Kubeconfig: path, Config: config, playground: p}
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connecting to cluster %s: %w", name, err)
	}
	if c.Federation, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connecting to cluster %s: %w", name, err)
	}
	return c, nil
}

// ID returns the cluster ID: the UID of the namespace kube-system.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(namespace.UID), nil
}

// Kubectl runs kubectl against the cluster.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) Result {
	return Run(c.KubectlCommand(ctx, args...))
}

// Apply runs "kubectl apply" on a manifest.
func (c *Cluster) Apply(ctx context.Context, manifest string) Result {
	return c.KubectlInput(ctx, manifest, "apply", "-f", "-")
}

// KubectlInput runs kubectl with stdin.
func (c *Cluster) KubectlInput(ctx context.Context, stdin string, args ...string) Result {
	cmd := c.KubectlCommand(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return Run(cmd)
}

// KubectlCommand returns a kubectl command for the cluster. Its discovery cache is in the directory
// of the instance. It is not the cache of Helm, which is filled before the federation's API is
// served.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cache := filepath.Join(c.playground.Dir(), "kubectl", c.Name)
	return Command(ctx, c.playground.Bin("kubectl"),
		append([]string{"--kubeconfig", c.Kubeconfig, "--cache-dir", cache}, args...)...)
}

// Helm runs helm against the cluster.
func (c *Cluster) Helm(ctx context.Context, args ...string) Result {
	return Run(Command(ctx, c.playground.Bin("helm"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...))
}
