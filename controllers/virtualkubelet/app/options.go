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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	federationvalidation "liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	defaultPort = 10250
	// flagRefusedEndpointCIDRs is the name of the flag that sets Options.RefusedEndpointCIDRs.
	flagRefusedEndpointCIDRs = "policy-refused-endpoint-cidrs"
)

// Options are the flags of a virtual kubelet.
type Options struct {
	// NodeName is the name of the Node. NodeIP is the address at which the local cluster reaches the kubelet API.
	NodeName, NodeIP string
	// VirtualNode is the name of the node's VirtualNode, and Namespace the peer namespace that contains it.
	VirtualNode, Namespace string
	// InstallationNamespace is the namespace of the AddressMappings. Empty means that EndpointSlices with endpoints on
	// other providers are reflected without these endpoints.
	InstallationNamespace string
	// ForeignCluster is the name of the provider's ForeignCluster in the local cluster.
	ForeignCluster string
	// ClusterID and RemoteClusterID are the cluster ids of the consumer and of the provider.
	ClusterID, RemoteClusterID string
	// ConsumerName is the name of the local cluster and of its NamespaceMap in the peer namespace.
	ConsumerName string
	// IdentityDir is the directory with the files of the consumer's identity at the provider.
	IdentityDir string
	// Kubeconfig is the kubeconfig file of the local cluster; empty means the service account of the pod.
	Kubeconfig string
	// Port is the TCP port of the kubelet API. The default is 10250.
	Port int32
	// CertFile and KeyFile are the paths of the serving certificate and its key; empty means a self-signed certificate.
	CertFile, KeyFile string
	// ConsumerAPIServer is the URL, https://host:port, at which remote pods reach the consumer's API server; empty means
	// that they cannot reach it and receive no tokens.
	ConsumerAPIServer string
	// ConsumerAPIServerThroughTunnels means that remote pods reach the IP address in ConsumerAPIServer only through the
	// tunnel, at the address that an AddressMapping maps it to.
	ConsumerAPIServerThroughTunnels bool
	// RefusedEndpointCIDRs are CIDRs whose addresses are refused if the provider reports them for remote pods, in
	// addition to the CIDRs that netmap.NewAddressFilter reads from the ClusterInfo. They have no effect with a tunnel.
	RefusedEndpointCIDRs []string
	// Profiling enables /debug/pprof on the kubelet API.
	Profiling bool
	// Dial opens connections to the provider. Nil means the dialer of package remote, which refuses the addresses that
	// checkAddress in that package names, for example addresses of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Logs *logs.Options
}

// NewOptions returns the default options.
func NewOptions() *Options {
	return &Options{Port: defaultPort, IdentityDir: "/etc/federation/identity", Logs: logs.NewOptions()}
}

// AddFlags adds the flags of all options but Dial.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.NodeName, "node-name", o.NodeName, "Name of the Node to maintain.")
	flags.StringVar(&o.NodeIP, "node-ip", o.NodeIP,
		"IP address of this pod, at which this cluster reaches the kubelet API.")
	flags.StringVar(&o.VirtualNode, "virtual-node", o.VirtualNode,
		"Name of the VirtualNode that the Node is created from.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "Peer namespace with the VirtualNode.")
	flags.StringVar(
		&o.InstallationNamespace,
		"installation-namespace",
		o.InstallationNamespace,
		"Installation namespace, with the AddressMappings. "+
			"If empty, endpoints that are pods on other providers are not reflected.",
	)
	flags.StringVar(
		&o.ForeignCluster, "foreign-cluster", o.ForeignCluster, "Name of the provider's ForeignCluster.",
	)
	flags.StringVar(&o.ClusterID, "cluster-id", o.ClusterID, "ID of this cluster: the UID of Namespace kube-system.")
	flags.StringVar(&o.RemoteClusterID, "remote-cluster-id", o.RemoteClusterID, "ID of the provider.")
	flags.StringVar(
		&o.ConsumerName,
		"consumer-name",
		o.ConsumerName,
		"Name of this cluster for its peers, which is also the name of the NamespaceMap in the peer namespace.",
	)
	flags.StringVar(&o.IdentityDir, "identity-dir", o.IdentityDir,
		"Directory with the files of this cluster's identity at the provider.")
	flags.StringVar(
		&o.Kubeconfig,
		"kubeconfig",
		o.Kubeconfig,
		"Kubeconfig file of this cluster. Empty uses the ServiceAccount of the pod.",
	)
	flags.Int32Var(&o.Port, "port", o.Port, "Port of the kubelet API.")
	flags.StringVar(
		&o.CertFile, "tls-cert-file", o.CertFile,
		"PEM file with the serving certificate of the kubelet API. Empty uses a self-signed certificate.",
	)
	flags.StringVar(
		&o.KeyFile, "tls-private-key-file", o.KeyFile, "PEM file with the private key of --tls-cert-file.",
	)
	flags.StringVar(
		&o.ConsumerAPIServer,
		"consumer-api-server",
		o.ConsumerAPIServer,
		"URL, https://host:port, at which pods on the provider reach the API server of this cluster. "+
			"If empty, they cannot reach it and get no tokens of their ServiceAccounts.",
	)
	flags.BoolVar(
		&o.ConsumerAPIServerThroughTunnels,
		"consumer-api-server-through-tunnels",
		o.ConsumerAPIServerThroughTunnels,
		"Let pods on the provider reach --consumer-api-server through the tunnel, at the address in its AddressMapping.",
	)
	flags.StringSliceVar(
		&o.RefusedEndpointCIDRs,
		flagRefusedEndpointCIDRs,
		o.RefusedEndpointCIDRs,
		"CIDRs in which addresses that the provider reports for pods are refused, in addition to the ranges of "+
			"nodes, pods, Services and API servers in ClusterInfo local, except ranges of pods whose source is Pod. "+
			"They have no effect with networking None or Tunnel.",
	)
	flags.BoolVar(
		&o.Profiling,
		"profiling",
		o.Profiling,
		"Serve /debug/pprof/ to clients that may get nodes/proxy of the node.",
	)
	logsapi.AddFlags(o.Logs, flags)
}

// Validate returns an error for each invalid option.
func (o *Options) Validate() []error {
	var errs []error
	for _, flag := range []struct{ name, value string }{
		{"node-name", o.NodeName}, {"virtual-node", o.VirtualNode}, {"namespace", o.Namespace},
		{"foreign-cluster", o.ForeignCluster}, {"consumer-name", o.ConsumerName},
	} {
		if len(validation.IsDNS1123Subdomain(flag.value)) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q: must be the name of an object", flag.name, flag.value))
		}
	}
	if o.InstallationNamespace != "" && len(validation.IsDNS1123Label(o.InstallationNamespace)) > 0 {
		errs = append(
			errs, fmt.Errorf("--installation-namespace %q: must be the name of a namespace", o.InstallationNamespace),
		)
	}
	for _, flag := range []struct{ name, value string }{
		{"cluster-id", o.ClusterID}, {"remote-cluster-id", o.RemoteClusterID},
	} {
		if flag.value == "" || len(validation.IsValidLabelValue(flag.value)) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q: must be the ID of a cluster", flag.name, flag.value))
		}
	}
	if net.ParseIP(o.NodeIP) == nil {
		errs = append(errs, fmt.Errorf("--node-ip %q: must be an IP address", o.NodeIP))
	}
	if o.Port < 1 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--port %d: must be between 1 and 65535", o.Port))
	}
	if o.IdentityDir == "" {
		errs = append(errs, errors.New("--identity-dir is required"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file: must be set together"))
	}
	api, err := o.consumerAPI()
	if err != nil {
		errs = append(errs, fmt.Errorf("--consumer-api-server: %w", err))
	}
	_, err = netip.ParseAddr(api.Host)
	if o.ConsumerAPIServerThroughTunnels && (err != nil || o.InstallationNamespace == "") {
		errs = append(errs, errors.New("--consumer-api-server-through-tunnels: requires --consumer-api-server with an IP "+
			"address, and --installation-namespace"))
	}
	for _, err := range federationvalidation.AnyCIDRs(
		o.RefusedEndpointCIDRs, field.NewPath("--"+flagRefusedEndpointCIDRs),
	) {
		errs = append(errs, err)
	}
	return errs
}

// refusedEndpointCIDRs returns the parsed RefusedEndpointCIDRs. It omits invalid ones, which Validate reports.
func (o *Options) refusedEndpointCIDRs() []netip.Prefix {
	return netmap.ParseCIDRs(o.RefusedEndpointCIDRs)
}

// consumerAPI returns the host and port in ConsumerAPIServer, or the zero value if it is empty. It fails if the URL is
// invalid.
func (o *Options) consumerAPI() (translate.ConsumerAPI, error) {
	if o.ConsumerAPIServer == "" {
		return translate.ConsumerAPI{}, nil
	}
	host, port, err := podspec.ConsumerAPIServer(o.ConsumerAPIServer)
	return translate.ConsumerAPI{Host: host, Port: port}, err
}
