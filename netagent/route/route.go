// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package route implements the route agent. It runs on every node, and routes packets for remote clusters to the
// active gateway and packets from them to the nodes.
package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// cleanupDelay is the time that a node must be without a gateway before the objects of its last gateway are removed. A
// restart of the gateway is shorter.
const cleanupDelay = time.Minute

// Agent is the route agent of a node.
type Agent struct {
	options *agent.Options
	kube    kubernetes.Interface
	node    *kernel.Namespace
	sources *agent.Sources
	worker  *worker
	loop    *agent.Loop
}

// New returns a route agent that configures the network namespace of its node. It registers the metrics, and
// fails if a metric or an event handler cannot be registered.
func New(options *agent.Options, kube kubernetes.Interface, federation versioned.Interface, node *kernel.Namespace,
	register func(metrics.Registerable) error,
) (*Agent, error) {
	own, err := agent.NewMetrics(register)
	if err != nil {
		return nil, err
	}
	a := &Agent{options: options, kube: kube, node: node}
	a.worker = &worker{
		self: options.NodeName, cluster: options.Cluster(), mtu: node.MTUOf, applier: apply.New(node),
		metrics: own, clock: clock.RealClock{},
		tidy: func() error { return tidy(node, options.NamespacePath) },
	}
	a.loop = agent.NewLoop(options.Resync, a.worker.pass)
	a.sources, err = agent.NewSources(
		kube,
		federation,
		options.Namespace,
		agent.RouteName,
		a.loop.Wake,
		func(lease *coordinationv1.Lease) {
			if a.worker.observe(lease) {
				a.loop.Wake()
			}
		},
		nil, nil,
	)
	if err != nil {
		return nil, err
	}
	a.worker.objects = a.sources.Objects
	return a, nil
}

// Run runs the agent until the context ends. The node is left as it is, so that packets are still routed, unless the
// DaemonSet was deleted: Run then removes everything that the agent created, and what a gateway that no longer runs
// left on the node.
func (a *Agent) Run(ctx context.Context) error {
	// The watch continues after the context ends, to detect that the DaemonSet is deleted.
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	group, working := errgroup.WithContext(ctx)
	if a.options.Listen != "" {
		group.Go(func() error { return agent.Serve(working, a.options.Listen, a.kube, a.loop.Live, a.loop.Ready) })
	}
	group.Go(func() error {
		if !a.sources.Start(watching, working) {
			return nil
		}
		klog.FromContext(working).Info("Starting", "node", a.options.NodeName)
		group.Go(func() error { a.loop.Follow(working, a.node); return nil })
		a.loop.Run(working)
		return nil
	})
	err := group.Wait()
	if a.sources.Removed() {
		klog.FromContext(ctx).Info("The DaemonSet was deleted, removing everything from the node")
		_, cleanErr := agent.CleanRoute(a.node)
		err = errors.Join(err, cleanErr, a.worker.end())
	}
	return err
}

// worker configures the node, in passes: each computes the state from the API objects and applies it.
type worker struct {
	self    string
	cluster agent.Cluster
	objects func() (agent.Objects, error)
	mtu     func(netip.Addr) (int, error)
	applier *apply.Applier
	metrics *agent.Metrics
	clock   clock.Clock
	// tidy removes the objects that a gateway left on the node.
	tidy func() error

	mu     sync.Mutex
	active string // the last observed holder of the gateways' Lease

	gatewayGoneSince time.Time // time since which the node has no gateway; zero while it has one
	tidied           bool
}

// observe processes a version of the gateways' Lease and reports whether another gateway has become active. It
// ignores a Lease without a holder.
func (w *worker) observe(lease *coordinationv1.Lease) bool {
	if lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.active != *lease.Spec.HolderIdentity
	w.active = *lease.Spec.HolderIdentity
	return changed
}

// pass applies the state computed from the API objects to the kernel. It does nothing as long as no gateway has been
// active yet.
func (w *worker) pass(ctx context.Context) error {
	began := w.clock.Now()
	w.mu.Lock()
	active := w.active
	w.mu.Unlock()
	if active == "" {
		return nil
	}
	writes, err := w.apply(ctx, active)
	w.metrics.ObservePass(w.clock.Since(began), writes, err)
	return err
}

func (w *worker) apply(ctx context.Context, active string) (int, error) {
	o, err := w.objects()
	if err != nil {
		return 0, err
	}
	o.Active = active
	t := agent.Translate(
		w.self,
		w.cluster,
		o,
		func(*v1alpha1.TunnelEndpoint) (netip.AddrPort, bool) { return netip.AddrPort{}, false },
	)
	if t.Input.MTU == 0 {
		if t.Input.MTU, err = agent.NodeMTU(t.Input, w.mtu); err != nil {
			return 0, err
		}
	}
	state, refused, err := model.RouteAgent(t.Input)
	if err != nil {
		return 0, fmt.Errorf("computing the state of the node: %w", err)
	}
	t.Refuse(refused)
	for name, reason := range t.Refused {
		klog.FromContext(ctx).V(2).Info("Peer is not served", "tunnelEndpoint", name, "reason", reason)
	}
	writes, err := w.applier.Apply(state)
	return writes, errors.Join(err, w.removeLeftovers(t.Input.Gateways))
}

// removeLeftovers removes the objects that a gateway left on the node, once the node has been without a gateway
// for cleanupDelay.
func (w *worker) removeLeftovers(gateways []string) error {
	if slices.Contains(gateways, w.self) {
		w.gatewayGoneSince, w.tidied = time.Time{}, false
		return nil
	}
	if w.gatewayGoneSince.IsZero() {
		w.gatewayGoneSince = w.clock.Now()
	}
	if w.tidied || w.clock.Since(w.gatewayGoneSince) < cleanupDelay {
		return nil
	}
	err := w.tidy()
	w.tidied = err == nil
	return err
}

// end removes the objects that a gateway left on the node, without cleanupDelay, as no agent runs later. A
// gateway that still runs removes its objects itself.
func (w *worker) end() error {
	o, err := w.objects()
	if err != nil || slices.Contains(o.Gateways, w.self) {
		return err
	}
	return w.tidy()
}

// tidy removes the objects that a gateway left on a node, if the gateway's network namespace still exists at path.
func tidy(node *kernel.Namespace, path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	inside, err := node.Enter(path)
	if err != nil {
		return err
	}
	backend, err := node.Backend()
	if err == nil {
		err = inside.UseBackend(backend)
	}
	if err == nil {
		_, err = agent.CleanGateway(node, inside)
	}
	return errors.Join(err, inside.Close(), kernel.RemoveNamespace(path))
}
