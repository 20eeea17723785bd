// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway implements the gateway, which terminates the tunnels to remote clusters. Gateways may run on
// several nodes of a cluster: one of them is active, and the others are standby gateways, which configure
// everything but the peers of the tunnel.
package gateway

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

const (
	// reportInterval is the time between two reports (statuses and metrics), and between two updates of
	// endpoints.
	reportInterval = time.Second
	// keyInterval is the time between two checks of the Secret with the keys and of the ConfigMap with the public key,
	// while none of them changes. It is also the delay after a failed write.
	keyInterval = 5 * time.Second
	// handoverTimeout bounds how long a terminating gateway waits until a standby gateway is active. After
	// handoverProbes failed probes of each gateway, no standby gateway is expected.
	handoverTimeout = 10 * time.Second
	handoverProbes  = 3
)

// Gateway is a gateway of the local cluster, active or standby.
type Gateway struct {
	options      *Options
	kube         kubernetes.Interface
	federation   versioned.Interface
	outer, inner *kernel.Namespace

	sources   *agent.Sources
	election  *Election
	keys      *keyring
	keyPair   *keyPair
	endpoints *agent.Endpoints
	worker    *worker
	loop      *agent.Loop
	metrics   *Metrics
	listeners listeners

	keysChanged chan struct{} // signals that keyPair may have to write

	connected map[string]bool // by TunnelEndpoint, as of the last call of updateEndpoints
}

// New returns a gateway that configures the network namespace of its node (outer) and its own (inner). It
// registers the metrics, and fails if a metric or an event handler cannot be registered.
func New(options *Options, kube kubernetes.Interface, federation versioned.Interface, outer, inner *kernel.Namespace,
	register func(metrics.Registerable) error,
) (*Gateway, error) {
	shared, err := agent.NewMetrics(register)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		options: options, kube: kube, federation: federation, outer: outer, inner: inner,
		keys: newKeyring(), endpoints: agent.NewEndpoints(), keysChanged: make(chan struct{}, 1),
	}
	if g.metrics, err = NewMetrics(register); err != nil {
		return nil, err
	}
	g.worker = &worker{
		self: options.NodeName, cluster: options.Cluster(),
		active: func() string { return g.election.Active() }, key: g.keys.get, endpoint: g.endpoints.Of, mtu: outer.MTUOf,
		inner: inner, host: apply.New(outer), inside: apply.New(inner),
		prober: &probe.Prober{
			OnReply: g.metrics.Answered,
			OnLoss:  g.metrics.Lost,
		}, metrics: shared, wrote: make(chan struct{}, 1),
	}
	g.worker.echo = &probe.Echo{OnProbe: g.worker.prober.MarkAddressReachable}
	g.loop = agent.NewLoop(options.Resync, func(ctx context.Context) error { return g.worker.pass(ctx) })
	g.election = NewElection(
		options.NodeName,
		kube.CoordinationV1().Leases(options.Namespace),
		g.probeGateway,
		g.loop.Healthy,
		func() { g.loop.Wake(); g.wakeKeyPair() },
	)
	g.sources, err = agent.NewSources(kube, federation, options.Namespace, agent.GatewayName, g.loop.Wake,
		func(lease *coordinationv1.Lease) { g.election.Observe(lease) }, g.observeKey, g.wakeKeyPair)
	if err != nil {
		return nil, err
	}
	g.worker.objects = g.sources.Objects
	g.keyPair = &keyPair{
		kube: kube, namespace: options.Namespace, secret: g.sources.Secret, publicKey: g.sources.PublicKey,
		active: func() bool { return g.election.Active() == options.NodeName }, removed: g.sources.Removed,
	}
	return g, nil
}

// Run runs the gateway until the context ends. Then an active gateway hands over to a standby gateway if there is
// one. The node is left as it is, so that the kernel keeps forwarding, unless the gateways' Deployment was
// deleted: Run then removes everything that the gateway created.
func (g *Gateway) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	// The caches are needed until the gateway has handed over.
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	group, working := errgroup.WithContext(ctx)
	if g.options.Listen != "" {
		group.Go(func() error { return agent.Serve(working, g.options.Listen, g.kube, g.loop.Live, g.ready) })
	}
	group.Go(func() error {
		if !g.sources.Start(watching, working) {
			return nil
		}
		group.Go(func() error { every(working, keyInterval, g.keysChanged, g.ensureKeyPair); return nil })
		logger.Info("Waiting for the pod ranges in ClusterInfo", "clusterInfo", v1alpha1.ClusterInfoName)
		if !g.sources.AwaitRanges(working) {
			return nil
		}
		logger.Info("Waiting for the private key", "secret", v1alpha1.WireGuardSecret)
		select {
		case <-working.Done():
			return nil
		case <-g.keys.known:
		}
		logger.Info("Starting", "node", g.options.NodeName)
		return g.work(working)
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, g.end(context.WithoutCancel(ctx)))
}

// ready returns an error with the reasons why the gateway is not ready; nil if it is.
func (g *Gateway) ready() error {
	_, err := g.keys.get()
	return errors.Join(err, g.loop.Ready(), g.listeners.Err())
}

// work runs the gateway until the context ends or a part of it fails.
func (g *Gateway) work(ctx context.Context) error {
	reports := &reporter{
		worker: g.worker, client: g.federation.FederationV1alpha1().TunnelEndpoints(g.options.Namespace),
		current: g.tunnelEndpoints, metrics: g.metrics, listeners: &g.listeners, now: time.Now, before: make(
			map[string]kernel.Traffic,
		),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { g.loop.Run(ctx); return nil })
	group.Go(func() error { g.election.Run(ctx); return nil })
	group.Go(func() error { g.loop.Follow(ctx, g.outer); return nil })
	group.Go(func() error { g.loop.Follow(ctx, g.inner); return nil })
	listen := func(client string, to func(context.Context) (func() error, error)) {
		group.Go(func() error { g.listeners.run(ctx, client, to); return nil })
	}
	listen("the other gateways of the local cluster", g.beacon)
	listen("replies of peers' gateways", g.probes)
	listen("peers' gateways", g.echo("udp4"))
	if g.hasIPv6() {
		listen("peers' gateways by IPv6", g.echo("udp6"))
	}
	group.Go(func() error {
		// After a write, a report follows at once: peers need a new public key without delay.
		every(ctx, reportInterval, g.worker.wrote, func(ctx context.Context) {
			if err := reports.report(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Reporting the state of the tunnels failed")
			}
		})
		return nil
	})
	group.Go(func() error { every(ctx, reportInterval, nil, g.updateEndpoints); return nil })
	group.Go(func() error { newControlPlane(g).run(ctx); return nil })
	return group.Wait()
}

// address returns the address of the gateway on a node. It fails if the node has no usable address.
func (g *Gateway) address(node string) (netip.Addr, error) {
	o, err := g.sources.Objects()
	if err != nil {
		return netip.Addr{}, err
	}
	return agent.NodeAddress(o, node)
}

// probeGateway probes the gateway on a node. It fails if there is no reply within the timeout.
func (g *Gateway) probeGateway(ctx context.Context, node string, timeout time.Duration) error {
	at, err := g.address(node)
	if err != nil {
		return err
	}
	return g.outer.Do(func() error {
		return probe.Query(ctx, netip.AddrPortFrom(at, probe.BeaconPort), g.keys.sharedKeys(), timeout)
	})
}

func (g *Gateway) tunnelEndpoints() ([]*v1alpha1.TunnelEndpoint, error) {
	o, err := g.sources.Objects()
	return o.TunnelEndpoints, err
}

// observeKey makes the private key in the Secret the current key. If the Secret was deleted, or has no key, the gateway
// keeps the previous key until the Secret has another one.
func (g *Gateway) observeKey(secret *corev1.Secret) {
	defer g.wakeKeyPair()
	if secret == nil {
		return
	}
	before := g.keys.last()
	if err := g.keys.set(secret.Data[v1alpha1.WireGuardPrivateKey]); err != nil {
		klog.Background().Error(err, "Reading the private key failed, keeping the previous one")
	} else if g.keys.last() != before {
		g.loop.Wake()
	}
}

// wakeKeyPair triggers a check of the key pair. It never blocks.
func (g *Gateway) wakeKeyPair() {
	select {
	case g.keysChanged <- struct{}{}:
	default:
	}
}

// ensureKeyPair creates the key pair and publishes the public key, if that is necessary.
func (g *Gateway) ensureKeyPair(ctx context.Context) {
	if err := g.keyPair.ensure(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Ensuring the keys of the gateway failed, retrying", "after", keyInterval)
	}
}

// updateEndpoints selects other endpoints for the peers to which the active gateway is not connected.
func (g *Gateway) updateEndpoints(ctx context.Context) {
	all, err := g.tunnelEndpoints()
	if err != nil {
		return
	}
	outcome := g.worker.outcome()
	active, lost := outcome.active, false
	var traffic map[model.PublicKey]kernel.Traffic
	if active && slices.ContainsFunc(all, controlOnly) {
		// On an error, peers without CIDRs count as not connected, and the reporter reports the error.
		traffic, _ = g.worker.inner.Traffic(model.TunnelLink)
	}
	connected := make(map[string]bool)
	for _, te := range all {
		connected[te.Name] = active && (g.worker.prober.Result(te.Name).Connected ||
			controlOnly(te) && recentHandshake(traffic[outcome.peers[te.Name]], time.Now()))
		lost = lost || g.connected[te.Name] && !connected[te.Name]
	}
	g.connected = connected
	// The cause of a lost connection may be a change on this node, which the next pass reverts.
	if g.endpoints.Follow(ctx, all, active, func(name string) bool { return connected[name] }) || lost {
		g.loop.Wake()
	}
}

// end hands over to a standby gateway, or removes everything from the node if the Deployment was deleted. The
// last pass removes the peers of the tunnel once another gateway holds the Lease, as two gateways with one key
// would receive each other's packets. A standby gateway may hold the Lease already, as this gateway no longer
// replies to probes.
func (g *Gateway) end(ctx context.Context) error {
	if g.sources.Removed() {
		klog.FromContext(ctx).Info("The Deployment was deleted, removing everything from the node")
		return g.clean()
	}
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	var err error
	if g.election.Active() == g.options.NodeName {
		if !g.hasStandby(ctx) {
			return nil
		}
		err = g.election.Release(ctx)
	}
	return errors.Join(err, g.worker.pass(ctx))
}

// hasStandby reports whether a standby gateway replies. It probes several times, as a busy gateway may miss a
// probe.
func (g *Gateway) hasStandby(ctx context.Context) bool {
	o, err := g.sources.Objects()
	if err != nil {
		return false
	}
	for range handoverProbes {
		if slices.ContainsFunc(o.Gateways, func(node string) bool {
			return node != g.options.NodeName && g.probeGateway(ctx, node, time.Second) == nil
		}) {
			return true
		}
	}
	return false
}

// clean removes everything that the gateway created on its node.
func (g *Gateway) clean() error {
	_, err := agent.CleanGateway(g.outer, g.inner)
	return errors.Join(err, kernel.RemoveNamespace(g.options.NamespacePath))
}

// every calls do at once, once per interval and when wake is signalled, until the context ends.
func every(ctx context.Context, interval time.Duration, wake <-chan struct{}, do func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-wake:
		}
	}
}
