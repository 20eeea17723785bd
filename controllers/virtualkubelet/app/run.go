// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/leader"
	"liqo.io/federation/controllers/logging"
	"liqo.io/federation/controllers/virtualkubelet/node"
	"liqo.io/federation/controllers/virtualkubelet/server"
)

// Run runs a virtual kubelet until the context ends, and then leaves the node and its pods for the
// next one. It starts again when the provider has to be connected to again, and stands by when it
// loses the lease. Its metrics are registered with the function.
func Run(ctx context.Context, options *Options, register func(metrics.Registerable) error) error {
	ctx = logging.WithoutBodies(ctx)
	node.LogQuietly()
	klog.FromContext(ctx).Info("Starting", "node", options.NodeName, "provider", options.ForeignCluster)

	own, err := NewMetrics(register)
	if err != nil {
		return err
	}
	// Once for all runs: a virtual kubelet that loses the lease because this cluster's API server
	// is away still serves its probes, and needs no request to start.
	auth, err := newAuth(ctx, options)
	if err != nil {
		return err
	}
	for {
		err = runOnce(ctx, options, own, auth)
		switch {
		case errors.Is(err, errMoved):
			klog.FromContext(ctx).Info("The provider is reached in another way now, connecting again", "node", options.NodeName)
		case errors.Is(err, leader.ErrLost):
			klog.FromContext(ctx).Info("Standing by", "node", options.NodeName, "reason", err.Error())
		default:
			return err
		}
	}
}

// newAuth returns the authentication and authorization of the kubelet's API.
func newAuth(ctx context.Context, options *Options) (*server.Auth, error) {
	here, err := local(options)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(tuned(here, options))
	if err != nil {
		return nil, fmt.Errorf("making clients of this cluster: %w", err)
	}
	return server.NewAuth(ctx, client, options.NodeName)
}

// runOnce runs until the context ends, the provider has to be connected to again or the lease is
// lost.
func runOnce(ctx context.Context, options *Options, own *Metrics, auth *server.Auth) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(options.Port))))
	if err != nil {
		return fmt.Errorf("listening for the kubelet's API: %w", err)
	}
	clients, err := connect(options)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	k, err := assemble(ctx, options, clients, own)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer k.events.Shutdown()

	group.Go(func() error { return k.serve(ctx, listener, auth) })
	group.Go(func() error { return k.work(ctx) })
	group.Go(func() error { return stays(ctx, clients.identity, options.IdentityDir, clock.RealClock{}) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serve serves the kubelet's API until the context ends.
func (k *kubelet) serve(ctx context.Context, listener net.Listener, auth *server.Auth) error {
	certificate, err := server.Certificate(
		k.options.CertFile,
		k.options.KeyFile,
		k.options.NodeName,
		net.ParseIP(k.options.NodeIP),
	)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	read := server.NewReadVolumes(k.clients.remote.Federation.FederationV1alpha1().RESTClient())
	volumes := server.NewVolumes(k.pods, read, clock.RealClock{}, klog.FromContext(ctx))
	return server.Serve(ctx, listener, certificate, server.New(server.Config{
		NodeName: k.options.NodeName,
		Pods:     k.pods,
		Provider: k.clients.provider,
		Auth:     auth,
		Metrics:  volumes.Handler(legacyregistry.DefaultGatherer),
		Volumes:  volumes,
		Usage: server.NewUsage(k.pods, k.clients.remote.Metrics, labels.SelectorFromSet(k.to.Labels()).String(),
			clock.RealClock{}, klog.FromContext(ctx)).Handler(),
		Ready: func() error {
			if !k.informers.synced() {
				return errors.New("this cluster's pods, VirtualNode, NamespaceMap and AddressMappings are not known yet")
			}
			return nil
		},
		Profiling: k.options.Profiling,
	}))
}
