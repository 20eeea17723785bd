// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"

	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/metrics"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/move"
)

// readiness is a health check that succeeds once the caches of the controllers have synced, or once another replica
// leads.
type readiness struct{ ready atomic.Bool }

func (r *readiness) set() { r.ready.Store(true) }

// Name returns the name of the check in responses of /readyz?verbose.
func (r *readiness) Name() string { return "caches" }

// Check fails until the process is ready.
func (r *readiness) Check(*http.Request) error {
	if !r.ready.Load() {
		return errors.New("the caches of the controllers are not filled yet")
	}
	return nil
}

// serve serves health checks without authentication, and metrics to authorized users, until ctx is done. The returned
// channel is closed when the server has stopped. It fails if it cannot listen, or if authentication or authorization
// cannot be configured.
func serve(ctx context.Context, config *Config, live, ready healthz.HealthChecker) (<-chan struct{}, error) {
	options := config.Options
	var serving *genericapiserver.SecureServingInfo
	if err := options.serving.ApplyTo(&serving); err != nil {
		return nil, fmt.Errorf("listening on port %d: %w", options.serving.BindPort, err)
	}
	authentication, authorities, err := authenticate(ctx, *options.authentication, config.Kube, serving)
	if err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}
	var authorization genericapiserver.AuthorizationInfo
	if err := options.authorization.ApplyTo(&authorization); err != nil {
		return nil, fmt.Errorf("setting up authorization: %w", err)
	}

	metrics.Register(legacyregistry.MustRegister)
	move.RegisterMetrics(legacyregistry.MustRegister)
	trust.RegisterMetrics(legacyregistry.MustRegister)
	if err := remote.RegisterMetrics(legacyregistry.Register); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	mux := http.NewServeMux()
	healthz.InstallHandler(mux, healthz.PingHealthz, live)
	healthz.InstallLivezHandler(mux, healthz.PingHealthz, live)
	healthz.InstallReadyzHandler(mux, ready, authorities, healthz.NewShutdownHealthz(ctx.Done()))
	mux.Handle("/metrics", promhttp.HandlerFor(
		prometheus.Gatherers{legacyregistry.DefaultGatherer, kit.Metrics()}, promhttp.HandlerOpts{}))

	codec := statusCodec()
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString(), GrouplessAPIPrefixes: sets.NewString()}
	handler := genericapifilters.WithAuthorization(mux, authorization.Authorizer, codec)
	handler = genericapifilters.WithAuthentication(handler, authentication.Authenticator,
		genericapifilters.Unauthorized(codec), nil, authentication.RequestHeaderConfig)
	handler = genericapifilters.WithRequestInfo(handler, resolver)
	handler = genericapifilters.WithCacheControl(handler)

	stopped, _, err := serving.Serve(handler, shutdownTimeout, ctx.Done())
	if err != nil {
		return nil, fmt.Errorf("serving on port %d: %w", options.serving.BindPort, err)
	}
	return stopped, nil
}
