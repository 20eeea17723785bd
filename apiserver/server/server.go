// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server creates the federation API server: a generic Kubernetes API server that serves the
// resources of the federation.
package server

import (
	"fmt"
	"net/http"
	"time"

	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/generated/openapi"
	federationrest "liqo.io/federation/registry/federation/rest"
)

const (
	name  = "federation-apiserver"
	title = "Liqo Federation"
	// ledgersHook is the name of the post-start hook, and of its health check, that waits until the
	// ledgers are ready.
	ledgersHook = "federation-ledgers"

	// cacheHook is the name of the post-start hook, and of its health check, that waits until the
	// informers have synced.
	cacheHook = "federation-informers"

	// reviewsPath is the path of placementreviews. It is excluded from the OpenAPI documents: only
	// kube-apiserver calls it, and other API servers do not publish AdmissionReview either.
	reviewsPath = "/apis/" + federation.GroupName + "/v1alpha1/placementreviews"

	// watchTermination is the time over which a server that is shutting down spreads the termination of its watches, so
	// that not all clients reconnect at the same moment.
	watchTermination = 2 * time.Second

	// maxBody is the maximum size of the body of a request, in bytes. Stored objects are smaller (ADR
	// 7). The limit is low because a decoded body of empty list elements uses hundreds of times as much
	// memory.
	maxBody = 1 << 20
)

// Config is the configuration of a server.
type Config struct {
	// Generic is the configuration of the generic server.
	Generic *genericapiserver.RecommendedConfig
	// Resources contains the dependencies of the federation's resources. Complete sets its fields
	// Scheme, Codecs and RESTOptionsGetter.
	Resources federationrest.StorageProvider
	// MaxPeerWatches is the maximum number of concurrent watches of each peer.
	MaxPeerWatches int
}

// DefaultMaxPeerWatches is the default of Config.MaxPeerWatches. A consumer watches four resources in
// its tenant namespace and, in each remote namespace, ShadowVolumeClaims once, and ShadowPods and
// ShadowEndpointSlices once for each virtual kubelet. Reflected kinds are resources of kube-apiserver.
// By default, a consumer with trust Tenant has at most 20 remote namespaces and 32 virtual kubelets,
// which is 4 + 20 × (1 + 2 × 32) = 1304 watches. A consumer whose connection was lost opens all of them
// again, while the old ones count until they time out. With one virtual kubelet, the default suffices
// for 1332 remote namespaces.
const DefaultMaxPeerWatches = 4000

// NewConfig returns a configuration of the federation API server. The caller must set the listener and
// the storage.
func NewConfig() *Config {
	generic := genericapiserver.NewRecommendedConfig(Codecs)
	generic.ShutdownWatchTerminationGracePeriod = watchTermination
	generic.MaxRequestBodyBytes = maxBody
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()

	namer := apiopenapi.NewDefinitionNamer(Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIConfig.Info.Title = title
	generic.OpenAPIConfig.IgnorePrefixes = []string{reviewsPath}
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIV3Config.Info.Title = title
	generic.OpenAPIV3Config.IgnorePrefixes = []string{reviewsPath}
	config := &Config{Generic: generic, MaxPeerWatches: DefaultMaxPeerWatches}
	generic.BuildHandlerChainFunc = config.handlerChain
	return config
}

// handlerChain returns the default handler chain of Kubernetes around handlers of this package, which
// thus run after authorization.
func (c *Config) handlerChain(handler http.Handler, config *genericapiserver.Config) http.Handler {
	watches := &peerWatches{max: c.MaxPeerWatches}
	handler = withNamespaceNames(withKnownParameters(withStrictVerbs(withPlainLists(handler))))
	return genericapiserver.DefaultBuildHandlerChain(watches.withLimit(handler), config)
}

type completedConfig struct {
	generic   genericapiserver.CompletedConfig
	resources federationrest.StorageProvider
}

// CompletedConfig is a configuration that Complete returned.
type CompletedConfig struct {
	*completedConfig
}

// Complete sets the fields of the configuration that depend on other fields.
func (c *Config) Complete() CompletedConfig {
	if evaluator := c.Generic.AuditPolicyRuleEvaluator; evaluator != nil {
		c.Generic.AuditPolicyRuleEvaluator = withoutSecrets{evaluator}
	}
	if backend := c.Generic.AuditBackend; backend != nil {
		c.Generic.AuditBackend = withoutRefusals{backend}
	}
	c.Resources.Scheme = Scheme
	c.Resources.Codecs = Codecs
	c.Resources.RESTOptionsGetter = c.Generic.RESTOptionsGetter
	return CompletedConfig{&completedConfig{generic: c.Generic.Complete(), resources: c.Resources}}
}

// New returns the federation API server. It fails if the storage cannot be reached.
func (c completedConfig) New() (*genericapiserver.GenericAPIServer, error) {
	server, err := c.generic.New(name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("creating the generic server: %w", err)
	}
	client, err := versioned.NewForConfig(c.generic.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("creating the loopback client of the API server: %w", err)
	}
	c.resources.Federation, c.resources.FederationInformers = client, externalversions.NewSharedInformerFactory(client, 0)
	group, background, err := c.resources.APIGroupInfo()
	if err != nil {
		return nil, err
	}
	server.RegisterDestroyFunc(background.Close)
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing the federation API: %w", err)
	}
	if err := server.AddPostStartHook(cacheHook, func(ctx genericapiserver.PostStartHookContext) error {
		c.resources.FederationInformers.StartWithContext(ctx)
		// ctx is done only when the server stops, so an incomplete sync is not an error.
		c.resources.FederationInformers.WaitForCacheSync(ctx.Done())
		return nil
	}); err != nil {
		return nil, fmt.Errorf("adding the hook of the informers: %w", err)
	}
	if err := server.AddPostStartHook(ledgersHook, func(ctx genericapiserver.PostStartHookContext) error {
		go background.Run(ctx)
		// ctx is done only when the server stops, and an error of a hook would crash the process.
		_ = background.Ready(ctx)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("adding the hook of the ledgers: %w", err)
	}
	return server, nil
}
