// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const defaultPort = 10250

// Options are the flags of a virtual kubelet.
type Options struct {
	// NodeName is the Node to maintain, and NodeIP the address that its API is served at.
	NodeName, NodeIP string
	// VirtualNode is the source of the node, in Namespace, the peer namespace.
	VirtualNode, Namespace string
	// InstallationNamespace has the AddressMappings. Empty means that endpoints on other providers
	// are not reflected.
	InstallationNamespace string
	// ForeignCluster is the name of the provider in this cluster.
	ForeignCluster string
	// ClusterID and RemoteClusterID are the ids of the consumer and the provider.
	ClusterID, RemoteClusterID string
	// ConsumerName is the name of the NamespaceMap in the peer namespace.
	ConsumerName string
	// IdentityDir is the directory of the identity at the provider.
	IdentityDir string
	// Kubeconfig is that of this cluster; empty means the service account of the pod.
	Kubeconfig string
	// Port is the port of the kubelet's API.
	Port int32
	// CertFile and KeyFile are the serving certificate; empty means a self-signed one.
	CertFile, KeyFile string
	// HomeServer is the URL at which remote pods reach the API server of this cluster; empty means
	// that they do not.
	HomeServer string
	// HomeThroughTunnel means that the provider reaches the address of HomeServer only by an
	// AddressMapping, through the tunnel.
	HomeThroughTunnel bool
	// Profiling serves profiles in addition to the kubelet's API.
	Profiling bool
	// Dial connects to the provider. Nil applies the rules for peers, which refuse providers that
	// only tests have, on the machine itself.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Logs *logs.Options
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{Port: defaultPort, IdentityDir: "/etc/federation/identity", Logs: logs.NewOptions()}
}

// AddFlags adds every flag.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.NodeName, "node-name", o.NodeName, "Name of the Node to keep.")
	flags.StringVar(&o.NodeIP, "node-ip", o.NodeIP, "Address that the kubelet's API is reached at: the pod's own.")
	flags.StringVar(&o.VirtualNode, "virtual-node", o.VirtualNode, "Name of the VirtualNode that the Node is made from.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "Peer namespace, where the VirtualNode is.")
	flags.StringVar(
		&o.InstallationNamespace,
		"installation-namespace",
		o.InstallationNamespace,
		"Namespace where the product is installed, and the AddressMappings are. Without one no endpoint on another provider is sent to this one.",
	)
	flags.StringVar(&o.ForeignCluster, "foreign-cluster", o.ForeignCluster, "Name of the ForeignCluster behind the Node.")
	flags.StringVar(&o.ClusterID, "cluster-id", o.ClusterID, "Id of this cluster.")
	flags.StringVar(&o.RemoteClusterID, "remote-cluster-id", o.RemoteClusterID, "Id of the cluster behind the Node.")
	flags.StringVar(
		&o.ConsumerName,
		"consumer-name",
		o.ConsumerName,
		"Name of this cluster, and of its NamespaceMap in the peer namespace.",
	)
	flags.StringVar(&o.IdentityDir, "identity-dir", o.IdentityDir, "Directory with the identity at the provider.")
	flags.StringVar(
		&o.Kubeconfig,
		"kubeconfig",
		o.Kubeconfig,
		"Kubeconfig of this cluster; default is that of the pod's service account.",
	)
	flags.Int32Var(&o.Port, "port", o.Port, "Port to serve the kubelet's API on.")
	flags.StringVar(&o.CertFile, "tls-cert-file", o.CertFile, "Serving certificate; default is a self-signed one.")
	flags.StringVar(&o.KeyFile, "tls-private-key-file", o.KeyFile, "Private key of the serving certificate.")
	flags.StringVar(
		&o.HomeServer,
		"home-server",
		o.HomeServer,
		"URL, https://host:port, under which pods on the provider reach the API server of this cluster. Without one their tokens stay here.",
	)
	flags.BoolVar(
		&o.HomeThroughTunnel,
		"home-through-tunnel",
		o.HomeThroughTunnel,
		"Where there is a tunnel to the provider, its pods reach the address of --home-server by the AddressMapping of it.",
	)
	flags.BoolVar(
		&o.Profiling,
		"profiling",
		o.Profiling,
		"Serve /debug/pprof/ to those who may get nodes/proxy of the node.",
	)
	logsapi.AddFlags(o.Logs, flags)
}

// Validate returns everything that is wrong with the options.
func (o *Options) Validate() []error {
	var errs []error
	for _, flag := range []struct{ name, value string }{
		{"node-name", o.NodeName}, {"virtual-node", o.VirtualNode}, {"namespace", o.Namespace},
		{"foreign-cluster", o.ForeignCluster}, {"consumer-name", o.ConsumerName},
	} {
		if len(validation.IsDNS1123Subdomain(flag.value)) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q is not the name of an object", flag.name, flag.value))
		}
	}
	if o.InstallationNamespace != "" && len(validation.IsDNS1123Label(o.InstallationNamespace)) > 0 {
		errs = append(errs, fmt.Errorf("--installation-namespace %q is not the name of a namespace", o.InstallationNamespace))
	}
	for _, flag := range []struct{ name, value string }{{"cluster-id", o.ClusterID}, {"remote-cluster-id", o.RemoteClusterID}} {
		if flag.value == "" || len(validation.IsValidLabelValue(flag.value)) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q is not the id of a cluster", flag.name, flag.value))
		}
	}
	if net.ParseIP(o.NodeIP) == nil {
		errs = append(errs, fmt.Errorf("--node-ip %q is not an IP address", o.NodeIP))
	}
	if o.Port < 1 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--port %d is not a port", o.Port))
	}
	if o.IdentityDir == "" {
		errs = append(errs, errors.New("--identity-dir is missing"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file are needed together"))
	}
	api, err := o.consumerAPI()
	if err != nil {
		errs = append(errs, fmt.Errorf("--home-server: %w", err))
	}
	if _, err := netip.ParseAddr(api.Host); o.HomeThroughTunnel && (err != nil || o.InstallationNamespace == "") {
		errs = append(
			errs,
			errors.New(
				"--home-through-tunnel needs --home-server with an address, and --installation-namespace, where it is mapped",
			),
		)
	}
	return errs
}

// consumerAPI returns the address at which remote pods reach the API server of this cluster.
func (o *Options) consumerAPI() (translate.ConsumerAPI, error) {
	if o.HomeServer == "" {
		return translate.ConsumerAPI{}, nil
	}
	host, port, err := podspec.HomeServer(o.HomeServer)
	return translate.ConsumerAPI{Host: host, Port: port}, err
}
