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

	"liqo.io/federation/generated/openapi"
	federationrest "liqo.io/federation/registry/federation/rest"
)

const (
	name  = "federation-apiserver"
	title = "Liqo Federation"
	// ledgersHook is what the health checks call the start of the ledgers.
	ledgersHook = "federation-ledgers"

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
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIV3Config.Info.Title = title
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
	group, background, err := c.resources.APIGroupInfo()
	if err != nil {
		return nil, err
	}
	server.RegisterDestroyFunc(background.Close)
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing the federation API: %w", err)
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
