// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds what the federation API server is told on its command
// line, and turns it into the configuration of a server.
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
)

// DefaultDataDir is where the embedded etcd keeps its data in a pod.
const DefaultDataDir = "/var/lib/federation"

const (
	defaultPort                = 8443
	defaultNamespace           = "liqo"
	defaultInvitationNamespace = "liqo-invitations"

	// storagePrefix stands before the key of every object. Changing it, or
	// the version that objects are stored in, loses what is stored.
	storagePrefix = "/registry"

	// Those of kube-apiserver, which stands in front of us.
	defaultMaxRequests         = 400
	defaultMaxMutatingRequests = 200

	// countPeriod is how long Priority and Fairness may not know how much a list
	// returns, which it then takes for a small one. The count is one of a
	// cache: it costs nothing.
	countPeriod = 10 * time.Second

	// maxStreams is high because kube-apiserver sends everybody's requests
	// over few connections.
	maxStreams = 1000
)

// Options is what the command line says. The zero value is not useful: start
// from New.
type Options struct {
	// Kubeconfig is the file that says how to reach this cluster's Kubernetes
	// API. Empty means the service account of the pod.
	Kubeconfig string
	// DataDir is where the embedded etcd keeps its data, when Etcd names no
	// servers.
	DataDir string
	// AllowEmptyStore lets the server start with an empty store although the
	// cluster is peered.
	AllowEmptyStore bool
	// Maintenance says how the embedded etcd looks after itself.
	Maintenance storage.Maintenance

	// Namespace is where the product is installed.
	Namespace string
	// InvitationNamespace is where the service accounts of invitations live.
	InvitationNamespace string
	// ClusterName is how this cluster calls itself towards others.
	ClusterName string
	// AdvertisedServer is the URL of this cluster's Kubernetes API in
	// invitations. Empty means that this cluster lends nothing.
	AdvertisedServer string
	// AdvertisedCAFile holds the certificate authorities of AdvertisedServer,
	// PEM encoded. Empty means those that this server itself trusts.
	AdvertisedCAFile string

	// Serving says where to listen, and with which certificate.
	Serving *genericoptions.SecureServingOptionsWithLoopback
	// Etcd says where and how objects are stored.
	Etcd *genericoptions.EtcdOptions
	// Authentication asks kube-apiserver who somebody is.
	Authentication *genericoptions.DelegatingAuthenticationOptions
	// Authorization asks kube-apiserver what somebody may do.
	Authorization *AuthorizationOptions
	// Admission is the chain of admission plugins.
	Admission *genericoptions.AdmissionOptions
	// Audit says what is written down of each request.
	Audit *genericoptions.AuditOptions
	// Features holds profiling, and Priority and Fairness, which is always on.
	Features *genericoptions.FeatureOptions
	// Tracing says where spans of requests go.
	Tracing *genericoptions.TracingOptions
	// MaxRequests is how many requests are worked on at a time, those that
	// change nothing and those that do; Priority and Fairness shares them out.
	MaxRequests, MaxMutatingRequests int
	// Logging says how the log looks.
	Logging *logsapi.LoggingConfiguration
}

// New returns options that need little more than certificate and cluster name.
func New() *Options {
	serving := genericoptions.NewSecureServingOptions()
	serving.BindPort = defaultPort
	serving.BindAddress = net.IPv4zero
	serving.Required = true
	serving.HTTP2MaxStreamsPerConnection = maxStreams

	backend := storagebackend.NewDefaultConfig(storagePrefix, server.StorageCodec)
	backend.EncodeVersioner = runtime.NewMultiGroupVersioner(v1alpha1.SchemeGroupVersion, schema.GroupKind{Group: v1alpha1.GroupName})
	etcd := genericoptions.NewEtcdOptions(backend)
	etcd.StorageConfig.CountMetricPollPeriod = countPeriod

	features := genericoptions.NewFeatureOptions()
	features.EnableProfiling = false

	o := &Options{
		DataDir:             DefaultDataDir,
		Maintenance:         storage.Maintenance{SnapshotInterval: 6 * time.Hour, SnapshotRetain: 4},
		Namespace:           defaultNamespace,
		InvitationNamespace: defaultInvitationNamespace,
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
		Logging:             logs.NewOptions(),
	}
	offloading.Register(o.Admission.Plugins, func() []string { return []string{o.Namespace, o.InvitationNamespace} })
	o.Admission.RecommendedPluginOrder = append(o.Admission.RecommendedPluginOrder, offloading.Name)
	return o
}

// Flags returns the flags that fill in the options, by what they are about.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets

	fs := sets.FlagSet("this cluster")
	fs.StringVar(&o.ClusterName, "cluster-name", o.ClusterName, "How this cluster calls itself towards others: a DNS label of at most 40 characters. Required.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "The namespace that the product is installed in.")
	fs.StringVar(&o.InvitationNamespace, "invitation-namespace", o.InvitationNamespace, "The namespace for the service accounts that invitations are paid with. Nothing else may live in it.")
	fs.StringVar(&o.AdvertisedServer, "advertised-server", o.AdvertisedServer, "The https URL under which other clusters reach this cluster's Kubernetes API; invitations carry it. A cluster that only borrows needs none.")
	fs.StringVar(&o.AdvertisedCAFile, "advertised-server-ca-file", o.AdvertisedCAFile, "The PEM file with the certificate authorities of --advertised-server. Defaults to those of this cluster.")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "The file that says how to reach this cluster's Kubernetes API. Defaults to the service account of the pod.")

	fs = sets.FlagSet("serving")
	fs.IPVar(&o.Serving.BindAddress, "bind-address", o.Serving.BindAddress, "The address to listen on; 0.0.0.0 means all.")
	fs.IntVar(&o.Serving.BindPort, "secure-port", o.Serving.BindPort, "The port to serve HTTPS on.")
	fs.StringVar(&o.Serving.ServerCert.CertKey.CertFile, "tls-cert-file", "", "The PEM file with the serving certificate, valid for the name <service>.<namespace>.svc that the APIService leads to; read again when it changes. Required.")
	fs.StringVar(&o.Serving.ServerCert.CertKey.KeyFile, "tls-private-key-file", "", "The PEM file with the private key of --tls-cert-file. Required.")
	fs.StringVar(&o.Serving.MinTLSVersion, "tls-min-version", o.Serving.MinTLSVersion, "The oldest TLS version to speak: VersionTLS12 or VersionTLS13.")
	fs.IntVar(&o.MaxRequests, "max-requests-inflight", o.MaxRequests, "How many requests that change nothing to work on at a time. With --max-mutating-requests-inflight this is what Priority and Fairness shares out.")
	fs.IntVar(&o.MaxMutatingRequests, "max-mutating-requests-inflight", o.MaxMutatingRequests, "How many requests that change something to work on at a time.")

	fs = sets.FlagSet("storage")
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "The directory for the data of the embedded etcd, on a volume that outlives the pod. One process may use it at a time.")
	fs.BoolVar(&o.AllowEmptyStore, "allow-empty-store", false, "Start with an empty store even if the cluster has namespaces of peerings, which is how a lost store looks. They and what runs in them go.")
	fs.DurationVar(&o.Maintenance.SnapshotInterval, "etcd-snapshot-interval", o.Maintenance.SnapshotInterval, "How often to take a snapshot of the embedded etcd, into the directory snapshots of --data-dir. 0 means never.")
	fs.IntVar(&o.Maintenance.SnapshotRetain, "etcd-snapshot-retain", o.Maintenance.SnapshotRetain, "How many of those snapshots to keep.")
	transport := &o.Etcd.StorageConfig.Transport
	fs.StringSliceVar(&transport.ServerList, "etcd-servers", nil, "The URLs of an etcd to use instead of the embedded one. Needed for more than one replica.")
	fs.StringVar(&transport.TrustedCAFile, "etcd-cafile", "", "The PEM file with the certificate authorities of --etcd-servers.")
	fs.StringVar(&transport.CertFile, "etcd-certfile", "", "The PEM file with the client certificate for --etcd-servers.")
	fs.StringVar(&transport.KeyFile, "etcd-keyfile", "", "The PEM file with the private key of --etcd-certfile.")
	fs.StringVar(&o.Etcd.EncryptionProviderConfigFilepath, "encryption-provider-config", "", "The file with the EncryptionConfiguration that says how objects are encrypted before they are stored.")
	fs.BoolVar(&o.Etcd.EncryptionProviderConfigAutomaticReload, "encryption-provider-config-automatic-reload", false, "Read --encryption-provider-config again when it changes.")

	fs = sets.FlagSet("authorization")
	fs.DurationVar(&o.Authentication.CacheTTL, "authentication-token-webhook-cache-ttl", o.Authentication.CacheTTL, "How long to remember whose a token is.")
	fs.DurationVar(&o.Authorization.AllowCacheTTL, "authorization-webhook-cache-authorized-ttl", o.Authorization.AllowCacheTTL, "How long to remember that something is allowed.")
	fs.DurationVar(&o.Authorization.DenyCacheTTL, "authorization-webhook-cache-unauthorized-ttl", o.Authorization.DenyCacheTTL, "How long to remember that something is refused.")

	o.Admission.AddFlags(sets.FlagSet("admission"))
	o.Audit.AddFlags(sets.FlagSet("auditing"))

	fs = sets.FlagSet("debugging")
	fs.BoolVar(&o.Features.EnableProfiling, "profiling", o.Features.EnableProfiling, "Serve /debug/pprof/ to those who may get it.")
	o.Tracing.AddFlags(fs)
	logsapi.AddFlags(o.Logging, fs)
	return sets
}

// embedsEtcd tells whether the data lies in DataDir.
func (o *Options) embedsEtcd() bool { return len(o.Etcd.StorageConfig.Transport.ServerList) == 0 }
