// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	componentconfig "k8s.io/component-base/config"
	configoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/consumer/peering"
	"liqo.io/federation/controllers/consumer/virtualnode"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/tunnel"
	"liqo.io/federation/controllers/provider/offer"
	"liqo.io/federation/controllers/remote"
)

// maxClusterName is how long a ForeignCluster's name may be, and so that of
// the cluster it stands for.
const maxClusterName = 40

// Options are the flags of the federation-controller-manager.
type Options struct {
	// Kubeconfig is a file; empty means the cluster that the process runs in.
	Kubeconfig string
	// Controllers selects: "*" is all that are on by default, a name one of
	// them, and "-name" all but that one.
	Controllers []string

	// ClusterName is how this cluster calls itself when it meets another.
	ClusterName string
	// Namespace is where the product is installed.
	Namespace string
	// InvitationNamespace is where the service accounts of invitations are.
	InvitationNamespace string
	// StorageNamespace is that of the claims and capacity objects which provision volumes
	// of the virtual storage class.
	StorageNamespace string
	// ServiceAccount is the one that this process runs as, in Namespace.
	ServiceAccount string
	// IdentityMode is how consumers are known here: by a certificate or by the
	// token of a service account.
	IdentityMode string
	// IdentityLifetime is how long identities last.
	IdentityLifetime time.Duration
	// OrphanTTL is how long a consumer may be silent before this cluster stops
	// lending to it; zero is for ever.
	OrphanTTL time.Duration
	// Networking says how the pods of this cluster and those of others reach each
	// other, where a ForeignCluster does not say.
	Networking string
	// RefusedEndpoints are CIDRs that no endpoint of a consumer may be in.
	RefusedEndpoints []string
	// Ranges are the ranges of this cluster that an administrator configures.
	Ranges clusterinfo.Values
	// Network is what is announced to peers of this cluster's network, and what their ranges are
	// remapped to.
	Network tunnel.Settings
	// ControlProxy leads to providers that are reached by their tunnels.
	ControlProxy peering.ControlProxy
	// Policy is what this cluster offers to consumers.
	Policy offer.Policy
	// VirtualKubelet is how virtual kubelets are deployed.
	VirtualKubelet virtualnode.VirtualKubelet
	// Mover selects the image of the pods that copy the data of a move.
	Mover Mover

	// LeaderElection lets one of several processes work.
	LeaderElection componentconfig.LeaderElectionConfiguration
	// Logs is how the process logs.
	Logs *logsapi.LoggingConfiguration

	serving        *genericoptions.SecureServingOptions
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
}

// NewOptions are the flags as they are when nobody says otherwise.
func NewOptions() *Options {
	o := &Options{
		Controllers:         []string{"*"},
		Namespace:           "liqo",
		InvitationNamespace: "liqo-invitations",
		StorageNamespace:    "liqo-storage",
		ServiceAccount:      "federation-controller-manager",
		IdentityMode:        string(identity.ModeAuto),
		IdentityLifetime:    identity.DefaultLifetime,
		Networking:          string(v1alpha1.NetworkingNone),
		Network:             tunnel.DefaultSettings(),
		Policy:              offer.DefaultPolicy(),
		VirtualKubelet: virtualnode.VirtualKubelet{
			PullPolicy: string(corev1.PullIfNotPresent),
		},
		Mover:          Mover{PullPolicy: string(corev1.PullIfNotPresent)},
		LeaderElection: newLeaderElection(),
		Logs:           logs.NewOptions(),
		serving:        genericoptions.NewSecureServingOptions(),
		authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		authorization:  genericoptions.NewDelegatingAuthorizationOptions(),
	}
	o.serving.BindPort = 8443
	// Without a directory the generated certificate stays in memory.
	o.serving.ServerCert.CertDirectory = ""
	o.serving.ServerCert.PairName = ""
	return o
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig file of this cluster. Empty uses the service account of the pod.")
	fs.StringSliceVar(&o.Controllers, "controllers", o.Controllers, fmt.Sprintf(
		"Controllers to run: '*' is all that are on by default, 'name' is one of them, '-name' is not that one. All: %v. Off by default: %v.",
		controllerNames(true), offByDefault()))
	fs.StringVar(&o.ClusterName, "cluster-name", o.ClusterName, "How this cluster calls itself, a DNS label of at most 40 characters. Required.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace where the product is installed.")
	fs.StringVar(&o.InvitationNamespace, "invitation-namespace", o.InvitationNamespace, "Namespace of the service accounts of invitations.")
	fs.StringVar(&o.StorageNamespace, "storage-namespace", o.StorageNamespace, "Namespace of the intermediate claims and capacity objects of the virtual storage class. Only the controllers may create claims in it.")
	fs.StringVar(&o.ServiceAccount, "service-account", o.ServiceAccount, "Service account of this process, in the installation namespace: it is given its role in the namespaces of providers.")
	fs.StringVar(&o.IdentityMode, "identity-mode", o.IdentityMode, "How consumers are known here: Certificate, signed through certificates.k8s.io, Token, of a service account, or Auto, which is Token where nobody signs.")
	fs.DurationVar(&o.IdentityLifetime, "identity-lifetime", o.IdentityLifetime, "How long the certificates that are signed here, and this cluster's tokens at providers, last. They are renewed at two thirds of that. At least 10m.")
	fs.DurationVar(&o.OrphanTTL, "orphan-ttl", o.OrphanTTL, "How long a consumer may give no sign of life before this cluster stops lending to it and removes what runs here for it, where spec.incomingPolicy.orphanTTL of its ForeignCluster does not say. At least 1m; 0s is for ever.")
	fs.StringVar(&o.Networking, "networking", o.Networking, "How the pods of this cluster and those of others reach each other, where spec.networking of a ForeignCluster does not say: None, where they do not, Flat, where all are in one network already, or Tunnel, by tunnels between gateways. Endpoints of Services cross only where they do.")
	fs.StringSliceVar(&o.RefusedEndpoints, "refused-endpoint-cidrs", o.RefusedEndpoints, "CIDRs that endpoints of consumers' Services cannot be in, beside the addresses and pod CIDRs of this cluster's nodes and the ServiceCIDRs: those of its pods where its nodes do not say, and whatever else its nodes reach and consumers are not to.")
	o.Ranges.AddFlags(fs)
	o.Network.AddFlags(fs)
	o.ControlProxy.AddFlags(fs)
	o.Policy.AddFlags(fs)
	o.VirtualKubelet.AddFlags(fs)
	o.Mover.AddFlags(fs)
	configoptions.BindLeaderElectionFlags(&o.LeaderElection, fs)
	o.serving.AddFlags(fs)
	o.authentication.AddFlags(fs)
	o.authorization.AddFlags(fs)
	logsapi.AddFlags(o.Logs, fs)
}

// Validate tells everything that is wrong at once.
func (o *Options) Validate() []error {
	var errs []error
	if o.ClusterName == "" {
		errs = append(errs, fmt.Errorf("--cluster-name is required: give this cluster a name that no cluster it meets has"))
	} else if len(o.ClusterName) > maxClusterName || len(validation.IsDNS1123Label(o.ClusterName)) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-name %q: must be a DNS label of at most %d characters", o.ClusterName, maxClusterName))
	}
	for flag, value := range map[string]string{
		"--namespace": o.Namespace, "--invitation-namespace": o.InvitationNamespace, "--storage-namespace": o.StorageNamespace, "--service-account": o.ServiceAccount,
	} {
		if len(validation.IsDNS1123Label(value)) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: must be a DNS label", flag, value))
		}
	}
	if _, err := identity.ParseMode(o.IdentityMode); err != nil {
		errs = append(errs, fmt.Errorf("--identity-mode: %w", err))
	}
	if o.IdentityLifetime < identity.MinLifetime {
		errs = append(errs, fmt.Errorf("--identity-lifetime %v: must be at least %v", o.IdentityLifetime, identity.MinLifetime))
	}
	if o.OrphanTTL != 0 && o.OrphanTTL < v1alpha1.MinOrphanTTL {
		errs = append(errs, fmt.Errorf("--orphan-ttl %v: must be 0s, which is for ever, or at least %v", o.OrphanTTL, v1alpha1.MinOrphanTTL))
	}
	modes := []v1alpha1.NetworkingMode{v1alpha1.NetworkingNone, v1alpha1.NetworkingFlat, v1alpha1.NetworkingTunnel}
	if !slices.Contains(modes, v1alpha1.NetworkingMode(o.Networking)) {
		errs = append(errs, fmt.Errorf("--networking %q: must be one of %v", o.Networking, modes))
	}
	errs = append(errs, o.Ranges.Validate()...)
	errs = append(errs, o.Network.Validate()...)
	errs = append(errs, o.ControlProxy.Validate()...)
	for _, cidr := range o.RefusedEndpoints {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, fmt.Errorf("--refused-endpoint-cidrs %q: must be a CIDR, as 10.96.0.0/12", cidr))
		}
	}
	errs = append(errs, validateSelection(o.Controllers)...)
	errs = append(errs, o.Policy.Validate()...)
	errs = append(errs, o.VirtualKubelet.Validate()...)
	errs = append(errs, o.Mover.Validate()...)
	errs = append(errs, validateLeaderElection(&o.LeaderElection)...)
	errs = append(errs, o.serving.Validate()...)
	errs = append(errs, o.authentication.Validate()...)
	errs = append(errs, o.authorization.Validate()...)
	return errs
}

// refusedEndpoints are RefusedEndpoints, as far as they are valid.
func (o *Options) refusedEndpoints() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, cidr := range o.RefusedEndpoints {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// Config connects to this cluster and learns its identity.
func (o *Options) Config(ctx context.Context) (*Config, error) {
	client, err := remote.Local(o.Kubeconfig, "federation-controller-manager")
	if err != nil {
		return nil, err
	}
	if err := o.serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	// Reviews go to the same API server as everything else.
	o.authentication.RemoteKubeConfigFile = o.Kubeconfig
	o.authorization.RemoteKubeConfigFile = o.Kubeconfig
	config, err := newConfig(client, o)
	if err != nil {
		return nil, err
	}
	config.ClusterID, err = clusterID(ctx, config.Kube)
	return config, err
}

// clusterID is the UID of the namespace that every cluster has, and never
// makes anew.
func clusterID(ctx context.Context, client kubernetes.Interface) (string, error) {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("learn the id of this cluster: %w", err)
	}
	return string(namespace.UID), nil
}
