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

// DefaultNamespacePath is the file that a gateway's network namespace is bound
// to. `ip netns exec liqo-netns` enters it.
const DefaultNamespacePath = "/run/netns/liqo-netns"

// Options are the flags that the agents have in common.
type Options struct {
	// NodeName is the node of the agent.
	NodeName string
	// Namespace is that of the installation.
	Namespace string
	// Kubeconfig leads to this cluster; empty means that the agent runs inside.
	Kubeconfig string
	// MTU is that of the nodes' network; 0 asks the node.
	MTU int
	// Port is the UDP port of the gateways.
	Port int
	// Resync is the time between passes while nothing changes.
	Resync time.Duration
	// Listen is the loopback address of health and metrics.
	Listen string
	// NamespacePath is the file of the gateway's network namespace.
	NamespacePath string
	// Cleanup removes everything from the node, and ends.
	Cleanup bool
	Logs    *logs.Options
}

// NewOptions are the defaults; listen is where health and metrics are served.
func NewOptions(listen string) *Options {
	return &Options{Port: 51820, Resync: 30 * time.Second, Listen: listen, NamespacePath: DefaultNamespacePath, Logs: logs.NewOptions()}
}

// AddFlags adds every flag.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.NodeName, "node-name", o.NodeName, "Name of the Node that this agent is on.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace of the installation, where TunnelEndpoints and AddressMappings are.")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig of this cluster; default is that of the pod's service account.")
	flags.IntVar(&o.MTU, "mtu", o.MTU, "MTU of the network between the nodes, in bytes. 0 takes that of the link with the node's address.")
	flags.IntVar(&o.Port, "port", o.Port, "UDP port of the gateway, which peers call.")
	flags.DurationVar(&o.Resync, "resync", o.Resync, "Time between comparisons of the node's kernel with what it is to hold, while nothing changes.")
	flags.StringVar(&o.Listen, "listen", o.Listen, "Loopback address for /livez, /readyz and /metrics. Empty serves nothing.")
	flags.StringVar(&o.NamespacePath, "netns", o.NamespacePath, "File that the gateway's network namespace is bound to.")
	flags.BoolVar(&o.Cleanup, "cleanup", o.Cleanup, "Remove everything that this agent has made on the node, and end.")
	logsapi.AddFlags(o.Logs, flags)
}

// Validate tells everything that is wrong with the options.
func (o *Options) Validate() []error {
	if o.Cleanup {
		return nil
	}
	var errs []error
	for _, flag := range []struct{ name, value string }{{"node-name", o.NodeName}, {"namespace", o.Namespace}} {
		if len(validation.IsDNS1123Subdomain(flag.value)) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q is not the name of an object", flag.name, flag.value))
		}
	}
	if o.MTU != 0 && (o.MTU < 1280 || o.MTU > 65535) {
		errs = append(errs, fmt.Errorf("--mtu %d is neither 0 nor between 1280 and 65535", o.MTU))
	}
	if o.Port < 1 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--port %d is not a port", o.Port))
	}
	if o.Resync < time.Second {
		errs = append(errs, fmt.Errorf("--resync %s is less than a second", o.Resync))
	}
	if o.Listen != "" {
		if err := loopback(o.Listen); err != nil {
			errs = append(errs, fmt.Errorf("--listen: %w", err))
		}
	}
	return errs
}

// Cluster returns what the flags configure of the cluster.
func (o *Options) Cluster() Cluster { return Cluster{MTU: o.MTU, Port: o.Port} }

// Clients makes clients of this cluster.
func (o *Options) Clients(name string) (kubernetes.Interface, versioned.Interface, error) {
	read := rest.InClusterConfig
	if o.Kubeconfig != "" {
		read = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", o.Kubeconfig) }
	}
	config, err := read()
	if err != nil {
		return nil, nil, fmt.Errorf("connect to this cluster: %w", err)
	}
	config = rest.AddUserAgent(config, name)
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of this cluster: %w", err)
	}
	federation, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the federation API: %w", err)
	}
	return kube, federation, nil
}

// Namespaces opens the network namespace of the node, and the gateway's within,
// which is made if there is none. Both use the iptables of the node.
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
