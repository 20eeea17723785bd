// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/netagent/kernel"
)

// DefaultNamespacePath is the file on which the gateway's network namespace is mounted, so that `ip netns exec
// liqo-netns` enters the namespace.
const DefaultNamespacePath = "/run/netns/liqo-netns"

// Options are the flags that the agents share.
type Options struct {
	// NodeName is the Node on which the agent runs.
	NodeName string
	// Namespace is the namespace of the installation.
	Namespace string
	// Kubeconfig is the path of a kubeconfig of the local cluster; empty means the in-cluster configuration.
	Kubeconfig string
	// MTU is the MTU of the network between the nodes, in bytes; 0 means the MTU of the link that has the node's
	// address.
	MTU int
	// Port is the UDP port of the gateways.
	Port int
	// Resync is the time between two comparisons of the node's kernel with the state computed from the API objects,
	// while nothing changes.
	Resync time.Duration
	// Listen is the loopback address that serves probes and metrics; empty serves none.
	Listen string
	// NamespacePath is the file on which the gateway's network namespace is mounted.
	NamespacePath string
	// Cleanup makes the agent remove everything that it created on the node, and exit.
	Cleanup bool
	Logs    *logs.Options
}

// NewOptions returns the default options of an agent, with listen as the default of Listen.
func NewOptions(listen string) *Options {
	return &Options{
		Port:          51820,
		Resync:        30 * time.Second,
		Listen:        listen,
		NamespacePath: DefaultNamespacePath,
		Logs:          logs.NewOptions(),
	}
}

// AddFlags adds the flags of all options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.NodeName, "node-name", o.NodeName, "Name of the Node on which this agent runs.")
	flags.StringVar(
		&o.Namespace,
		"namespace",
		o.Namespace,
		"Namespace of the installation, which holds TunnelEndpoints and AddressMappings.",
	)
	flags.StringVar(
		&o.Kubeconfig,
		"kubeconfig",
		o.Kubeconfig,
		"Path of a kubeconfig of the local cluster. Empty uses the pod's ServiceAccount.",
	)
	flags.IntVar(
		&o.MTU,
		"mtu",
		o.MTU,
		"MTU of the network between the nodes, in bytes. 0 uses the MTU of the link that has the node's address.",
	)
	flags.IntVar(&o.Port, "port", o.Port, "UDP port on which gateways receive WireGuard packets.")
	flags.DurationVar(
		&o.Resync,
		"resync",
		o.Resync,
		"Time between comparisons of the node's kernel with the state computed from the API, while nothing changes.",
	)
	flags.StringVar(
		&o.Listen,
		"listen",
		o.Listen,
		"Loopback address, host:port, for /livez, /readyz and /metrics. Empty serves none of them.",
	)
	flags.StringVar(&o.NamespacePath, "netns", o.NamespacePath,
		"File on which the gateway's network namespace is mounted.")
	flags.BoolVar(&o.Cleanup, "cleanup", o.Cleanup, "Remove everything that this agent created on the node, and exit.")
	logsapi.AddFlags(o.Logs, flags)
}

// Validate returns all errors of the options. If Cleanup is set it returns none, as a cleanup uses no other
// option.
func (o *Options) Validate() []error {
	if o.Cleanup {
		return nil
	}
	var errs []error
	for _, flag := range []struct{ name, value string }{{"node-name", o.NodeName}, {"namespace", o.Namespace}} {
		if len(validation.IsDNS1123Subdomain(flag.value)) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q: must be the name of an object", flag.name, flag.value))
		}
	}
	if o.MTU != 0 && (o.MTU < 1280 || o.MTU > 65535) {
		errs = append(errs, fmt.Errorf("--mtu %d: must be 0, or between 1280 and 65535", o.MTU))
	}
	if o.Port < 1 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--port %d: must be between 1 and 65535", o.Port))
	}
	if o.Resync < time.Second {
		errs = append(errs, fmt.Errorf("--resync %s: must be at least 1s", o.Resync))
	}
	if o.Listen != "" {
		if err := loopback(o.Listen); err != nil {
			errs = append(errs, fmt.Errorf("--listen: %w", err))
		}
	}
	return errs
}

// Cluster returns the configuration of the cluster.
func (o *Options) Cluster() Cluster { return Cluster{MTU: o.MTU, Port: o.Port} }

// Clients returns clients of the local cluster, with name in their user agent. It fails if neither the kubeconfig
// nor the in-cluster configuration can be read.
func (o *Options) Clients(name string) (kubernetes.Interface, versioned.Interface, error) {
	read := rest.InClusterConfig
	if o.Kubeconfig != "" {
		read = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", o.Kubeconfig) }
	}
	config, err := read()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig of the local cluster: %w", err)
	}
	config = rest.AddUserAgent(config, name)
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client of the local cluster: %w", err)
	}
	federation, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client of the federation API: %w", err)
	}
	return kube, federation, nil
}

// Namespaces opens the node's network namespace (outer) and the gateway's (inner), which it creates at path if it does
// not exist. In both, iptables uses the backend of the node, nft or legacy. Callers must close both.
func Namespaces(path string) (outer, inner *kernel.Namespace, err error) {
	outer, err = kernel.Current()
	if err != nil {
		return nil, nil, err
	}
	inner, err = outer.Enter(path)
	if err != nil {
		return nil, nil, errors.Join(err, outer.Close())
	}
	backend, err := outer.Backend()
	if err == nil {
		err = inner.UseBackend(backend)
	}
	if err != nil {
		return nil, nil, errors.Join(err, inner.Close(), outer.Close())
	}
	return outer, inner, nil
}
