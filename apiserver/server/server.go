// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server assembles the federation API server: the generic server of
// Kubernetes, with the federation's resources in it.
package server

import (
	"fmt"
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
	// ledgersHook is what the health checks call the start of the ledgers.
	ledgersHook = "federation-ledgers"

	// cacheHook is what the health checks call the start of the informers.
	cacheHook = "federation-informers"

	// reviewsPath is not in the OpenAPI documents: only kube-apiserver calls it, and they
	// lack the kind of reviews in every other API server, too.
	reviewsPath = "/apis/" + federation.GroupName + "/v1alpha1/placementreviews"

	// watchTermination is how long a server that stops takes to end its
	// watches, so that their clients do not all come back at once.
	watchTermination = 2 * time.Second

	// maxBody is how much a request may carry, in bytes: what is stored is smaller
	// (ADR 7), and a body of empty elements takes hundreds of times as much memory
	// once it is read.
	maxBody = 1 << 20
)

// Config is what a server is made from.
type Config struct {
	// Generic is the configuration of the generic server.
	Generic *genericapiserver.RecommendedConfig
	// Resources is what the federation's resources are made with. Its Scheme,
	// Codecs and RESTOptionsGetter are set by Complete.
	Resources federationrest.StorageProvider
}

// NewConfig returns a configuration that describes the federation API and
// neither stores nor listens yet.
func NewConfig() *Config {
	generic := genericapiserver.NewRecommendedConfig(Codecs)
	generic.BuildHandlerChainFunc = handlerChain
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
	return &Config{Generic: generic}
}

type completedConfig struct {
	generic   genericapiserver.CompletedConfig
	resources federationrest.StorageProvider
}

// CompletedConfig is a configuration that went through Complete.
type CompletedConfig struct {
	*completedConfig
}

// Complete fills in what follows from the rest of the configuration.
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

// New makes a server that serves the federation API once it is run. It fails
// when the storage cannot be reached.
func (c completedConfig) New() (*genericapiserver.GenericAPIServer, error) {
	server, err := c.generic.New(name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("making the generic server: %w", err)
	}
	client, err := versioned.NewForConfig(c.generic.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("making the client for the server's own objects: %w", err)
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
		// As below, nothing but the end of the server ends the wait.
		c.resources.FederationInformers.WaitForCacheSync(ctx.Done())
		return nil
	}); err != nil {
		return nil, fmt.Errorf("having the informers started: %w", err)
	}
	if err := server.AddPostStartHook(ledgersHook, func(ctx genericapiserver.PostStartHookContext) error {
		go background.Run(ctx)
		// Nothing but the end of the server ends the wait, and an error would make
		// that a crash.
		_ = background.Ready(ctx)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("having the ledgers kept: %w", err)
	}
	return server, nil
}
