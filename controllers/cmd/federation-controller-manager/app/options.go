// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	componentconfig "k8s.io/component-base/config"
	configoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationvalidation "liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/consumer/peering"
	"liqo.io/federation/controllers/consumer/virtualnode"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/tunnel"
	"liqo.io/federation/controllers/provider/offer"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/move"
)

// maxClusterName is the maximum length of a cluster's name in characters. On peers, it is the name of a ForeignCluster.
const maxClusterName = 40

// kubeconfigHelp is the help text of --kubeconfig in all commands.
const kubeconfigHelp = "Kubeconfig file of the local cluster. Empty uses the ServiceAccount of the pod."

// Options are the flags of the federation-controller-manager.
type Options struct {
	// Kubeconfig is the path of the kubeconfig file of the local cluster; empty uses the ServiceAccount of the pod.
	Kubeconfig string
	// Controllers selects controllers: "*" selects all that are not off by default, a name selects a controller, and
	// "-name" excludes it.
	Controllers []string

	// ClusterName is the name of the local cluster, after which peers name its ForeignCluster. Required.
	ClusterName string
	// Namespace is the namespace of the installation.
	Namespace string
	// InvitationNamespace is the namespace of the ServiceAccounts and Secrets of invitations.
	InvitationNamespace string
	// StorageNamespace is the namespace of the CSIStorageCapacities of the virtual StorageClass, and of the
	// intermediate claims for which volumes are provisioned in the local cluster for virtual volumes.
	StorageNamespace string
	// ServiceAccount is the name of the ServiceAccount of this process, in Namespace. Controllers bind roles to it in
	// the namespaces of peerings.
	ServiceAccount string
	// IdentityMode selects the credentials that consumers get: certificates, or tokens of ServiceAccounts.
	IdentityMode string
	// IdentityLifetime is the lifetime of the certificates that this cluster signs, and of its tokens at providers.
	IdentityLifetime time.Duration
	// OrphanTTL is the time after the last heartbeat of a consumer at which its quota is released and its objects are
	// deleted. Zero means never. A ForeignCluster can set another time.
	OrphanTTL time.Duration
	// Networking is the mode of pod connectivity with peers whose ForeignCluster sets no mode.
	Networking string
	// NetworkReach selects the local pods that a peer reaches if its ForeignCluster sets no reach. Empty means Offloaded
	// with trust Tenant, and All with SameOwner.
	NetworkReach string
	// APIAccess is the access of remote pods to the API server of the local cluster on providers whose ForeignCluster sets
	// none. Empty means Disabled with trust Tenant, and Consumer with SameOwner.
	APIAccess string
	// RefusedEndpointCIDRs are CIDRs in which addresses that peers report are refused: addresses of endpoints of
	// consumers' Services and, with networking Flat, of pods on providers. In addition, remote pods that a
	// NetworkPolicy isolates cannot reach these CIDRs, and local endpoints in them get no address for peers.
	RefusedEndpointCIDRs []string
	// Ranges are the CIDRs of the local cluster that an administrator configures. CIDRs that are not configured are
	// detected.
	Ranges clusterinfo.Values
	// Network configures the external CIDRs, the pool of remapped CIDRs, and the gateway of the local cluster.
	Network tunnel.Settings
	// ControlProxy is the gateway's proxy, through which peerings with mode InBand reach the provider's API server.
	ControlProxy peering.ControlProxy
	// Policy limits what is offered to consumers.
	Policy offer.Policy
	// VirtualKubelet configures the Deployments of virtual kubelets.
	VirtualKubelet virtualnode.VirtualKubelet
	// Mover selects the image of the pods that copy the data of a move.
	Mover move.Mover

	// LeaderElection configures the election of the replica that runs the controllers.
	LeaderElection componentconfig.LeaderElectionConfiguration
	// Logs configures logging.
	Logs *logsapi.LoggingConfiguration

	serving        *genericoptions.SecureServingOptions
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
}

// NewOptions returns the options with their defaults.
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
			PullPolicy:  string(corev1.PullIfNotPresent),
			MemoryLimit: resource.QuantityValue{Quantity: resource.MustParse("512Mi")},
		},
		Mover:          move.Mover{PullPolicy: string(corev1.PullIfNotPresent)},
		LeaderElection: newLeaderElection(),
		Logs:           logs.NewOptions(),
		serving:        genericoptions.NewSecureServingOptions(),
		authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		authorization:  genericoptions.NewDelegatingAuthorizationOptions(),
	}
	o.serving.BindPort = 8443
	// With an empty directory the self-signed certificate is kept in memory only.
	o.serving.ServerCert.CertDirectory = ""
	o.serving.ServerCert.PairName = ""
	return o
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, kubeconfigHelp)
	fs.StringSliceVar(&o.Controllers, "controllers", o.Controllers, fmt.Sprintf(
		"Controllers to run: '*' selects all that are on by default, 'name' selects one, '-name' excludes one. "+
			"All: %v. Off by default: %v.",
		controllerNames(true), offByDefault()))
	fs.StringVar(&o.ClusterName, "cluster-name", o.ClusterName,
		"Name of this cluster, a DNS label of at most 40 characters. It must differ from the names of all peers. Required.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace,
		"Installation namespace, with the programs and the objects that no peer may read.")
	fs.StringVar(&o.InvitationNamespace, "invitation-namespace", o.InvitationNamespace,
		"Namespace of the ServiceAccounts whose tokens invitations contain, and of the Secrets with the invitations of "+
			"providers.")
	fs.StringVar(&o.StorageNamespace, "storage-namespace", o.StorageNamespace,
		"Namespace of the CSIStorageCapacities of the virtual StorageClass, and of the claims that provision volumes in "+
			"this cluster for virtual volumes. Only the controllers may create claims in it.")
	fs.StringVar(&o.ServiceAccount, "service-account", o.ServiceAccount,
		"ServiceAccount of this process, in the installation namespace. "+
			"Controllers bind roles to it in the namespaces of peerings.")
	fs.StringVar(&o.IdentityMode, "identity-mode", o.IdentityMode,
		"Credentials of consumers: Certificate (signed through certificates.k8s.io), Token (of a ServiceAccount) or Auto "+
			"(certificates, and tokens if no signer issues certificates).")
	fs.DurationVar(&o.IdentityLifetime, "identity-lifetime", o.IdentityLifetime,
		"Lifetime of the certificates that this cluster signs, and of the tokens that it uses at providers. "+
			"Both are renewed after two thirds of their lifetime. At least 10m.")
	fs.DurationVar(&o.OrphanTTL, "policy-orphan-ttl", o.OrphanTTL,
		"Time after the last heartbeat of a consumer at which its quota is released and its objects in this cluster are "+
			"deleted, unless its ForeignCluster sets spec.incomingPolicy.orphanTTL. At least 1m; 0s means never.")
	fs.StringVar(&o.Networking, "networking", o.Networking,
		"Pod connectivity with peers, unless spec.networking of a ForeignCluster is set: None, Flat (pod networks are "+
			"already routed and disjoint) or Tunnel (WireGuard between gateways; overlapping CIDRs are remapped). "+
			"Endpoints of Services are reflected only with Flat or Tunnel.")
	fs.StringVar(&o.NetworkReach, "network-reach", o.NetworkReach,
		"Local pods that peers reach through tunnels, unless spec.reach of a ForeignCluster is set: Offloaded (pods that "+
			"the peer offloaded, and endpoints of Services reflected or exported to it) or All. If empty, Offloaded "+
			"with trust Tenant, and All with SameOwner.")
	trust.AddAPIAccessFlag(fs, &o.APIAccess)
	fs.StringSliceVar(&o.RefusedEndpointCIDRs, "policy-refused-endpoint-cidrs", o.RefusedEndpointCIDRs,
		"CIDRs in which addresses that peers report are refused: addresses of endpoints of consumers' Services and, if "+
			"--networking or spec.networking of the ForeignCluster is Flat, addresses of pods on providers. They are refused "+
			"in addition to the ranges of nodes, pods, Services and API servers in ClusterInfo local. Set the ranges that "+
			"ClusterInfo local lacks, its ranges of pods with source Pod, and other ranges that nodes can reach but peers "+
			"must not reach.")
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

// Validate returns one error for each invalid option.
func (o *Options) Validate() []error {
	var errs []error
	if o.ClusterName == "" {
		errs = append(errs, errors.New("--cluster-name is required: choose a name that differs from the names of all peers"))
	} else if len(o.ClusterName) > maxClusterName || len(validation.IsDNS1123Label(o.ClusterName)) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-name %q: must be a DNS label of at most %d characters",
			o.ClusterName, maxClusterName))
	}
	for flag, value := range map[string]string{
		"--namespace": o.Namespace, "--invitation-namespace": o.InvitationNamespace,
		"--storage-namespace": o.StorageNamespace, "--service-account": o.ServiceAccount,
	} {
		if len(validation.IsDNS1123Label(value)) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: must be a DNS label", flag, value))
		}
	}
	if _, err := identity.ParseMode(o.IdentityMode); err != nil {
		errs = append(errs, fmt.Errorf("--identity-mode: %w", err))
	}
	if o.IdentityLifetime < identity.MinLifetime {
		errs = append(errs, fmt.Errorf("--identity-lifetime %v: must be at least %v",
			o.IdentityLifetime, identity.MinLifetime))
	}
	if o.OrphanTTL != 0 && o.OrphanTTL < v1alpha1.MinOrphanTTL {
		errs = append(errs, fmt.Errorf("--policy-orphan-ttl %v: must be 0s, which means never, or at least %v",
			o.OrphanTTL, v1alpha1.MinOrphanTTL))
	}
	modes := []v1alpha1.NetworkingMode{v1alpha1.NetworkingNone, v1alpha1.NetworkingFlat, v1alpha1.NetworkingTunnel}
	if !slices.Contains(modes, v1alpha1.NetworkingMode(o.Networking)) {
		errs = append(errs, fmt.Errorf("--networking %q: must be one of %v", o.Networking, modes))
	}
	reaches := []v1alpha1.ReachMode{"", v1alpha1.ReachOffloaded, v1alpha1.ReachAll}
	if !slices.Contains(reaches, v1alpha1.ReachMode(o.NetworkReach)) {
		errs = append(errs, fmt.Errorf("--network-reach %q: must be Offloaded, All or empty", o.NetworkReach))
	}
	errs = append(errs, trust.ValidateAPIAccess(o.APIAccess)...)
	errs = append(errs, o.Ranges.Validate()...)
	errs = append(errs, o.Network.Validate()...)
	errs = append(errs, o.ControlProxy.Validate()...)
	for _, err := range federationvalidation.AnyCIDRs(
		o.RefusedEndpointCIDRs, field.NewPath("--policy-refused-endpoint-cidrs"),
	) {
		errs = append(errs, err)
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

// installation returns the values that determine which policies are in force for a peer.
func (o *Options) installation() trust.Installation {
	policy := &o.Policy
	return trust.Installation{
		RemoteNamespaces: policy.RemoteNamespaces, MaxRemoteNamespaces: policy.MaxRemoteNamespaces,
		Network: v1alpha1.NetworkAccess(policy.NetworkAccess), Pods: policy.PodFlags, Objects: policy.ObjectLimits(),
		ReflectedKinds: policy.Kinds(), MaxObjectBytes: policy.MaxObjectBytes, ExternalNames: policy.ExternalNames,
		AutoAccept: policy.AutoAccept, Reach: v1alpha1.ReachMode(o.NetworkReach), KeepCIDRs: o.Network.KeepCIDRs,
		APIAccess: v1alpha1.APIAccess(o.APIAccess),
	}
}

// refusedEndpointCIDRs returns the parsed RefusedEndpointCIDRs. It omits invalid ones, which Validate reports.
func (o *Options) refusedEndpointCIDRs() []netip.Prefix {
	return netmap.ParseCIDRs(o.RefusedEndpointCIDRs)
}

// Config returns the Config of the controllers, with clients of the local cluster. It fails if the API server cannot be
// reached or no serving certificate can be created.
func (o *Options) Config(ctx context.Context) (*Config, error) {
	client, err := remote.Local(o.Kubeconfig, "federation-controller-manager")
	if err != nil {
		return nil, err
	}
	if err := o.serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("creating a serving certificate: %w", err)
	}
	// TokenReviews and SubjectAccessReviews are created with the same kubeconfig.
	o.authentication.RemoteKubeConfigFile = o.Kubeconfig
	o.authorization.RemoteKubeConfigFile = o.Kubeconfig
	config, err := newConfig(client, o)
	if err != nil {
		return nil, err
	}
	config.ClusterID, err = clusterID(ctx, config.Kube)
	return config, err
}

// clusterID returns the UID of the Namespace kube-system, which is never deleted.
func clusterID(ctx context.Context, client kubernetes.Interface) (string, error) {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the ID of the local cluster: %w", err)
	}
	return string(namespace.UID), nil
}
