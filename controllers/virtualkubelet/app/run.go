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

// Run runs a virtual kubelet until the context ends; the Node and its pods remain. It restarts the controllers when the
// connection settings of the provider change, and waits for the Lease of the leader election again after losing it. It
// passes every metric to register. It fails if --consumer-api-server is invalid, a client of either cluster cannot be
// created, the port of the kubelet API is in use, or the VirtualNode does not exist.
func Run(ctx context.Context, options *Options, register func(metrics.Registerable) error) error {
	ctx = logging.WithLimits(ctx)
	node.LogQuietly()
	klog.FromContext(ctx).Info("Starting", "node", options.NodeName, "provider", options.ForeignCluster)

	own, err := NewMetrics(register)
	if err != nil {
		return err
	}
	// auth is created once, for all calls of runOnce: after the Lease was lost because the local API server is
	// unavailable, it could not be created again, and the kubelet API must still serve probes.
	auth, err := newAuth(ctx, options)
	if err != nil {
		return err
	}
	for {
		err = runOnce(ctx, options, own, auth)
		switch {
		case errors.Is(err, errMoved):
			klog.FromContext(ctx).Info(
				"Connection settings of the provider changed, reconnecting", "node", options.NodeName,
			)
		case errors.Is(err, leader.ErrLost):
			klog.FromContext(ctx).Info("Standing by", "node", options.NodeName, "reason", err.Error())
		default:
			return err
		}
	}
}

// newAuth returns the authentication and authorization of the kubelet API. It fails if the local API server does not
// return the CAs of clients.
func newAuth(ctx context.Context, options *Options) (*server.Auth, error) {
	config, err := local(options)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(tuned(config, options))
	if err != nil {
		return nil, fmt.Errorf("creating clients of this cluster: %w", err)
	}
	return server.NewAuth(ctx, client, options.NodeName)
}

// runOnce runs the controllers and the kubelet API. It returns nil when the context ends, errMoved when the connection
// settings of the provider change, and leader.ErrLost when the Lease of the leader election is lost.
func runOnce(ctx context.Context, options *Options, own *Metrics, auth *server.Auth) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(options.Port))))
	if err != nil {
		return fmt.Errorf("listening for the kubelet API: %w", err)
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
	group.Go(func() error { return watchIdentity(ctx, clients.identity, options.IdentityDir, clock.RealClock{}) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serve serves the kubelet API until the context ends. It fails if the serving certificate cannot be read or created,
// or if the listener fails.
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
				return errors.New(
					"the pods, VirtualNodes, NamespaceMap, ClusterInfo and AddressMappings of this cluster are not cached yet",
				)
			}
			return nil
		},
		Profiling: k.options.Profiling,
	}))
}
