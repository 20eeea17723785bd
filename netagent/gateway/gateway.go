// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway is the program at the end of the tunnels to other clusters.
// Several of them may run in a cluster, on different nodes: one is active, the
// others stand by with everything in place but the peers.
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
	// reportEvery is how often statuses and metrics are looked at while nothing
	// changes, and endpoints that nothing is heard from.
	reportEvery = time.Second
	// keyEvery is how often the file of the private key is read.
	keyEvery = 5 * time.Second
	// handover bounds how long one that ends waits for another to take over, after
	// so many questions whether one is there.
	handover          = 10 * time.Second
	handoverQuestions = 3
)

// Gateway is a gateway put together.
type Gateway struct {
	options      *Options
	kube         kubernetes.Interface
	federation   versioned.Interface
	outer, inner *kernel.Namespace

	sources   *agent.Sources
	election  *Election
	keys      *keyring
	endpoints *agent.Endpoints
	worker    *worker
	loop      *agent.Loop
	metrics   *Metrics
	listeners listeners

	connected map[string]bool // when endpoints were last looked at
}

// New puts a gateway together that works in the network namespaces of a node
// and of its own. Its metrics are registered with the function given.
func New(options *Options, kube kubernetes.Interface, federation versioned.Interface, outer, inner *kernel.Namespace,
	register func(metrics.Registerable) error,
) (*Gateway, error) {
	shared, err := agent.NewMetrics(register)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		options: options, kube: kube, federation: federation, outer: outer, inner: inner,
		keys: &keyring{file: options.PrivateKeyFile}, endpoints: agent.NewEndpoints(),
	}
	if g.metrics, err = NewMetrics(register); err != nil {
		return nil, err
	}
	g.worker = &worker{
		self: options.NodeName, cluster: options.Cluster(),
		active: func() string { return g.election.Active() }, key: g.keys.read, endpoint: g.endpoints.Of, mtu: outer.MTUOf,
		inner: inner, host: apply.New(outer), inside: apply.New(inner),
		prober: &probe.Prober{Answered: g.metrics.Answered, Lost: g.metrics.Lost}, metrics: shared, wrote: make(chan struct{}, 1),
	}
	g.worker.echo = &probe.Echo{Asked: g.worker.prober.Asked}
	g.loop = agent.NewLoop(options.Resync, func(ctx context.Context) error { return g.worker.pass(ctx) })
	g.election = NewElection(options.NodeName, kube.CoordinationV1().Leases(options.Namespace), g.ask, g.loop.Healthy, g.loop.Wake)
	g.sources, err = agent.NewSources(kube, federation, options.Namespace, agent.GatewayName, g.loop.Wake,
		func(lease *coordinationv1.Lease) { g.election.Observe(lease) }, g.learnKey)
	if err != nil {
		return nil, err
	}
	g.worker.objects = g.sources.Objects
	return g, nil
}

// Run works until the context ends. Then it leaves the node as it is, so that
// what the kernel forwards goes on; where others stand by, one of them takes
// over first. Where its Deployment was deleted, nothing is left behind.
func (g *Gateway) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	// Caches outlive the work, for the end to be an orderly one.
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
		logger.Info("Waiting for ClusterInfo to name the ranges of pods", "clusterInfo", v1alpha1.ClusterInfoName)
		if !g.sources.AwaitRanges(working) {
			return nil
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

// ready tells what speaks against the gateway being what it should be.
func (g *Gateway) ready() error { return errors.Join(g.loop.Ready(), g.listeners.Err()) }

// work does everything, until the context ends or something cannot be done.
func (g *Gateway) work(ctx context.Context) error {
	if _, err := g.keys.read(); err != nil {
		return err
	}
	reports := &reporter{
		worker: g.worker, client: g.federation.FederationV1alpha1().TunnelEndpoints(g.options.Namespace),
		current: g.tunnelEndpoints, metrics: g.metrics, listeners: &g.listeners, now: time.Now, before: make(map[string]kernel.Traffic),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { g.loop.Run(ctx); return nil })
	group.Go(func() error { g.election.Run(ctx); return nil })
	group.Go(func() error { g.loop.Follow(ctx, g.outer); return nil })
	group.Go(func() error { g.loop.Follow(ctx, g.inner); return nil })
	listen := func(whom string, to func(context.Context) (func() error, error)) {
		group.Go(func() error { g.listeners.keep(ctx, whom, to); return nil })
	}
	listen("the other gateways of this cluster", g.beacon)
	listen("answers of peers' gateways", g.probes)
	listen("peers' gateways", g.echo("udp4"))
	if g.hasIPv6() {
		listen("peers' gateways by IPv6", g.echo("udp6"))
	}
	group.Go(func() error { every(ctx, keyEvery, nil, g.followKey); return nil })
	group.Go(func() error {
		// A peer waits for our new key until it is told.
		every(ctx, reportEvery, g.worker.wrote, func(ctx context.Context) {
			if err := reports.report(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "What the tunnels are like was not reported")
			}
		})
		return nil
	})
	group.Go(func() error { every(ctx, reportEvery, nil, g.followEndpoints); return nil })
	group.Go(func() error { newControlPlane(g).run(ctx); return nil })
	return group.Wait()
}

// address is where other gateways find the one on a node.
func (g *Gateway) address(node string) (netip.Addr, error) {
	o, err := g.sources.Objects()
	if err != nil {
		return netip.Addr{}, err
	}
	return agent.NodeAddress(o, node)
}

// ask asks another gateway whether it is alive.
func (g *Gateway) ask(ctx context.Context, node string, patience time.Duration) error {
	at, err := g.address(node)
	if err != nil {
		return err
	}
	return g.outer.Do(func() error {
		return probe.Ask(ctx, netip.AddrPortFrom(at, probe.BeaconPort), g.keys.keys(), patience)
	})
}

func (g *Gateway) tunnelEndpoints() ([]*v1alpha1.TunnelEndpoint, error) {
	o, err := g.sources.Objects()
	return o.TunnelEndpoints, err
}

// learnKey takes the private key from the Secret, sooner than it comes to the
// file: what two gateways use must not differ for long.
func (g *Gateway) learnKey(secret *corev1.Secret) {
	before := g.keys.known()
	if err := g.keys.learn(secret.Data[v1alpha1.WireGuardPrivateKey]); err != nil {
		klog.Background().Error(err, "The private key stays as it was")
	} else if g.keys.known() != before {
		g.loop.Wake()
	}
}

// followKey has a pass made when the private key is another one.
func (g *Gateway) followKey(ctx context.Context) {
	before := g.keys.known()
	if _, err := g.keys.read(); err != nil {
		klog.FromContext(ctx).Error(err, "The private key stays as it was")
	} else if g.keys.known() != before {
		klog.FromContext(ctx).Info("The private key has changed")
		g.loop.Wake()
	}
}

// followEndpoints has peers called elsewhere that the active gateway does not
// hear from.
func (g *Gateway) followEndpoints(ctx context.Context) {
	all, err := g.tunnelEndpoints()
	if err != nil {
		return
	}
	outcome := g.worker.outcome()
	active, lost := outcome.active, false
	var traffic map[model.PublicKey]kernel.Traffic
	if active && slices.ContainsFunc(all, controlOnly) {
		// Without it nobody counts as heard from, and the reporter tells why.
		traffic, _ = g.worker.inner.Traffic(model.TunnelLink)
	}
	connected := make(map[string]bool)
	for _, te := range all {
		connected[te.Name] = active && (g.worker.prober.Result(te.Name).Connected ||
			controlOnly(te) && heard(traffic[outcome.peers[te.Name]], time.Now()))
		lost = lost || g.connected[te.Name] && !connected[te.Name]
	}
	g.connected = connected
	// Who is not heard from any more may be cut off by something on this node.
	if g.endpoints.Follow(ctx, all, active, func(name string) bool { return connected[name] }) || lost {
		g.loop.Wake()
	}
}

// end gives the Lease to one that stands by, and takes its own peers away once
// that one has it: two with one key would draw packets from each other. One that
// stands by may have taken it by then, since this one does not answer any more.
func (g *Gateway) end(ctx context.Context) error {
	if g.sources.Removed() {
		klog.FromContext(ctx).Info("The Deployment was deleted, removing everything from the node")
		return g.clean()
	}
	ctx, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	var err error
	if g.election.Active() == g.options.NodeName {
		if !g.anotherStandsBy(ctx) {
			return nil
		}
		err = g.election.Release(ctx)
	}
	return errors.Join(err, g.worker.pass(ctx))
}

// anotherStandsBy tells whether another gateway is there to take over. One that
// is busy may miss a question.
func (g *Gateway) anotherStandsBy(ctx context.Context) bool {
	o, err := g.sources.Objects()
	if err != nil {
		return false
	}
	for range handoverQuestions {
		if slices.ContainsFunc(o.Gateways, func(node string) bool {
			return node != g.options.NodeName && g.ask(ctx, node, time.Second) == nil
		}) {
			return true
		}
	}
	return false
}

// clean removes everything that a gateway makes.
func (g *Gateway) clean() error {
	_, err := agent.CleanGateway(g.outer, g.inner)
	return errors.Join(err, kernel.RemoveNamespace(g.options.NamespacePath))
}

// every does something each interval, and sooner when it is woken.
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
