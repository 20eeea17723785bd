// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options defines the flags of the federation API server, and creates a server from them.
package options

import (
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/apiserver/admission/offloading"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/server"
	"liqo.io/federation/apiserver/storage"
	"liqo.io/federation/apiserver/trust"
)

// DefaultDataDir is the default directory for the data of the embedded etcd.
const DefaultDataDir = "/var/lib/federation"

const (
	defaultPort                = 8443
	defaultNamespace           = "liqo"
	defaultInvitationNamespace = "liqo-invitations"

	// storagePrefix is the prefix of the etcd key of every object. Objects that were stored with another prefix are not
	// found.
	storagePrefix = "/registry"

	// defaultMaxRequests and defaultMaxMutatingRequests are the defaults of MaxRequests and
	// MaxMutatingRequests. They equal the defaults of kube-apiserver, which forwards the requests.
	defaultMaxRequests         = 400
	defaultMaxMutatingRequests = 200

	// countPeriod is the time between two counts of the objects of each resource, from which Priority
	// and Fairness estimates the cost of lists. Counting is cheap, because it reads a cache.
	countPeriod = 10 * time.Second

	// maxStreams is the maximum number of concurrent HTTP/2 streams on a connection. It is high because
	// kube-apiserver forwards the requests of all users over few connections.
	maxStreams = 1000
)

// Options are the values of the flags. Use New to create them.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file for the local cluster. Empty uses the ServiceAccount
	// of the pod.
	Kubeconfig string
	// DataDir is the directory for the data of the embedded etcd, which runs if Etcd has no servers.
	DataDir string
	// AllowEmptyStore permits a start with an empty store in a cluster that has namespaces of peerings,
	// which are then deleted.
	AllowEmptyStore bool
	// Snapshots are the interval and the number of snapshots of the embedded etcd.
	Snapshots storage.Snapshots

	// Namespace is the installation namespace.
	Namespace string
	// InvitationNamespace is the namespace of the ServiceAccounts whose tokens invitations contain, and
	// of the Secrets with the invitations of providers. It must not be Namespace.
	InvitationNamespace string
	// ClusterName is the name that the local cluster presents to its peers.
	ClusterName string
	// Server is the https URL in invitations at which consumers reach the local Kubernetes
	// API. Empty permits only invitations with mode InBand.
	Server string
	// ServerCAFile is the path of a PEM file with the certificate authorities of Server.
	// Empty uses the certificate authorities of the local cluster.
	ServerCAFile string

	// Trust is the spec.trust of new ForeignClusters that specify none: Tenant or SameOwner.
	Trust string
	// Pods are the limits for pods of consumers.
	Pods trust.PodFlags
	// APIAccess is the access of pods on providers to the API server of the local cluster. Only warnings about changes
	// depend on it.
	APIAccess string

	// Serving is the address, the port and the certificate for HTTPS.
	Serving *genericoptions.SecureServingOptionsWithLoopback
	// Etcd are the etcd servers, empty for the embedded etcd, and the encryption of stored objects.
	Etcd *genericoptions.EtcdOptions
	// Authentication configures authentication, which is delegated to kube-apiserver.
	Authentication *genericoptions.DelegatingAuthenticationOptions
	// Authorization configures authorization, which is delegated to kube-apiserver.
	Authorization *AuthorizationOptions
	// Admission selects the admission plugins.
	Admission *genericoptions.AdmissionOptions
	// Audit is the audit policy and log.
	Audit *genericoptions.AuditOptions
	// Features enables profiling. Priority and Fairness is always enabled.
	Features *genericoptions.FeatureOptions
	// Tracing configures where OpenTelemetry spans are sent.
	Tracing *genericoptions.TracingOptions
	// MaxRequests and MaxMutatingRequests are the maximum numbers of concurrent read and mutating
	// requests. Priority and Fairness distributes their sum among its priority levels.
	MaxRequests, MaxMutatingRequests int
	// MaxPeerWatches is the maximum number of concurrent watches of each peer.
	MaxPeerWatches int
	// Logging is the format and verbosity of the log.
	Logging *logsapi.LoggingConfiguration
}

// New returns the default options.
func New() *Options {
	serving := genericoptions.NewSecureServingOptions()
	serving.BindPort = defaultPort
	serving.BindAddress = net.IPv4zero
	serving.Required = true
	serving.HTTP2MaxStreamsPerConnection = maxStreams

	backend := storagebackend.NewDefaultConfig(storagePrefix, server.StorageCodec)
	backend.EncodeVersioner = runtime.NewMultiGroupVersioner(v1alpha1.SchemeGroupVersion,
		schema.GroupKind{Group: v1alpha1.GroupName})
	etcd := genericoptions.NewEtcdOptions(backend)
	etcd.StorageConfig.CountMetricPollPeriod = countPeriod

	features := genericoptions.NewFeatureOptions()
	features.EnableProfiling = false

	o := &Options{
		DataDir:             DefaultDataDir,
		Snapshots:           storage.Snapshots{Interval: 6 * time.Hour, Retain: 4},
		Namespace:           defaultNamespace,
		InvitationNamespace: defaultInvitationNamespace,
		Trust:               string(v1alpha1.TrustTenant),
		Serving:             serving.WithLoopback(),
		Etcd:                etcd,
		Authentication:      genericoptions.NewDelegatingAuthenticationOptions(),
		Authorization:       newAuthorizationOptions(),
		Admission:           genericoptions.NewAdmissionOptions(),
		Audit:               genericoptions.NewAuditOptions(),
		Features:            features,
		Tracing:             genericoptions.NewTracingOptions(),
		MaxRequests:         defaultMaxRequests,
		MaxMutatingRequests: defaultMaxMutatingRequests,
		MaxPeerWatches:      server.DefaultMaxPeerWatches,
		Logging:             logs.NewOptions(),
	}
	offloading.Register(o.Admission.Plugins, func() (string, []string) {
		return o.ClusterName, []string{o.Namespace, o.InvitationNamespace}
	})
	o.Admission.RecommendedPluginOrder = append(o.Admission.RecommendedPluginOrder, offloading.Name)
	return o
}

// Flags returns the flags that set the options, grouped by topic.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets

	fs := sets.FlagSet("this cluster")
	fs.StringVar(&o.ClusterName, "cluster-name", o.ClusterName,
		"Name that this cluster presents to its peers: a DNS label of at most 40 characters. Required.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Installation namespace, the namespace of the chart's release.")
	fs.StringVar(&o.InvitationNamespace, "invitation-namespace", o.InvitationNamespace,
		"Namespace of the ServiceAccounts whose tokens invitations contain, and of the Secrets with the invitations of "+
			"providers. It must have no other ServiceAccounts.")
	fs.StringVar(&o.Server, "server", o.Server,
		"The https URL at which consumers reach the Kubernetes API of this cluster, for example "+
			"https://api.example.com:6443. Invitations contain it. If empty, only in-band invitations can be created.")
	fs.StringVar(&o.ServerCAFile, "server-ca-file", o.ServerCAFile,
		"PEM file with the certificate authorities with which consumers verify --server. Empty uses the "+
			"authorities with which pods verify the API server of this cluster.")
	fs.StringVar(&o.Trust, "policy-trust", o.Trust,
		"What new peers, and pods of their users, may do in this cluster, unless spec.trust of their ForeignCluster or of "+
			"their invitation is set: Tenant (peers of other owners) or SameOwner.")
	o.Pods.AddFlags(fs)
	trust.AddAPIAccessFlag(fs, &o.APIAccess)
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Kubeconfig file of this cluster. Empty uses the ServiceAccount of the pod.")

	fs = sets.FlagSet("serving")
	fs.IPVar(&o.Serving.BindAddress, "bind-address", o.Serving.BindAddress,
		"IP address to listen on; 0.0.0.0 listens on all addresses.")
	fs.IntVar(&o.Serving.BindPort, "secure-port", o.Serving.BindPort, "Port on which HTTPS is served.")
	fs.StringVar(&o.Serving.ServerCert.CertKey.CertFile, "tls-cert-file", "",
		"PEM file with the serving certificate. It must be valid for <service>.<namespace>.svc of the Service in the "+
			"APIService, and is reloaded when it changes. Required.")
	fs.StringVar(&o.Serving.ServerCert.CertKey.KeyFile, "tls-private-key-file", "",
		"PEM file with the private key of --tls-cert-file. Required.")
	fs.StringVar(&o.Serving.MinTLSVersion, "tls-min-version", o.Serving.MinTLSVersion,
		"Minimum TLS version: VersionTLS12 or VersionTLS13.")
	fs.IntVar(&o.MaxRequests, "max-requests-inflight", o.MaxRequests,
		"Maximum number of concurrent read requests. API Priority and Fairness distributes the sum of this flag and "+
			"--max-mutating-requests-inflight among its priority levels.")
	fs.IntVar(&o.MaxMutatingRequests, "max-mutating-requests-inflight", o.MaxMutatingRequests,
		"Maximum number of concurrent mutating requests.")
	fs.IntVar(&o.MaxPeerWatches, "max-peer-watches", o.MaxPeerWatches,
		"Maximum number of concurrent watches of each peer. Further watches are refused with 429. In each remote "+
			"namespace, a consumer needs one watch and two for each of its virtual nodes.")

	fs = sets.FlagSet("storage")
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"Directory for the data of the embedded etcd, on a persistent volume. Only one process at a time may "+
			"use it.")
	fs.BoolVar(&o.AllowEmptyStore, "allow-empty-store", false,
		"Start with an empty store even if the cluster has namespaces of peerings, which usually means that the store "+
			"was lost. "+
			"These namespaces and the pods in them are deleted.")
	fs.DurationVar(&o.Snapshots.Interval, "snapshots-interval", o.Snapshots.Interval,
		"Time between two snapshots of the embedded etcd, in the directory snapshots of --data-dir. If "+
			"0, no snapshots are taken.")
	fs.IntVar(&o.Snapshots.Retain, "snapshots-retain", o.Snapshots.Retain,
		"Number of snapshots of the embedded etcd to keep; older ones are deleted.")
	transport := &o.Etcd.StorageConfig.Transport
	fs.StringSliceVar(&transport.ServerList, "etcd-servers", nil,
		"URLs of an etcd to use instead of the embedded one. Required for more than one replica.")
	fs.StringVar(&transport.TrustedCAFile, "etcd-cafile", "",
		"PEM file with the certificate authorities with which --etcd-servers are verified.")
	fs.StringVar(&transport.CertFile, "etcd-certfile", "",
		"PEM file with the client certificate for --etcd-servers.")
	fs.StringVar(&transport.KeyFile, "etcd-keyfile", "", "PEM file with the private key of --etcd-certfile.")
	fs.StringVar(&o.Etcd.EncryptionProviderConfigFilepath, "encryption-provider-config", "",
		"File with the EncryptionConfiguration for stored objects. Empty stores them without encryption.")
	fs.BoolVar(&o.Etcd.EncryptionProviderConfigAutomaticReload, "encryption-provider-config-automatic-reload", false,
		"Reload --encryption-provider-config when it changes.")

	fs = sets.FlagSet("authorization")
	fs.DurationVar(&o.Authentication.CacheTTL, "authentication-token-webhook-cache-ttl", o.Authentication.CacheTTL,
		"How long the user that a TokenReview returned for a token is cached.")
	fs.DurationVar(&o.Authorization.AllowCacheTTL, "authorization-webhook-cache-authorized-ttl",
		o.Authorization.AllowCacheTTL, "How long the decision that a request is allowed is cached.")
	fs.DurationVar(&o.Authorization.DenyCacheTTL, "authorization-webhook-cache-unauthorized-ttl",
		o.Authorization.DenyCacheTTL, "How long the decision that a request is denied is cached.")

	o.Admission.AddFlags(sets.FlagSet("admission"))
	o.Audit.AddFlags(sets.FlagSet("auditing"))

	fs = sets.FlagSet("debugging")
	fs.BoolVar(&o.Features.EnableProfiling, "profiling", o.Features.EnableProfiling,
		"Serve /debug/pprof/ to users with the permission get on this path.")
	o.Tracing.AddFlags(fs)
	logsapi.AddFlags(o.Logging, fs)
	return sets
}

// embedsEtcd reports whether the server runs the embedded etcd, because Etcd has no servers.
func (o *Options) embedsEtcd() bool { return len(o.Etcd.StorageConfig.Transport.ServerList) == 0 }
