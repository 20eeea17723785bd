// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

// worker brings a gateway's node and its namespace to what objects ask for.
type worker struct {
	self    string
	cluster agent.Cluster

	objects  func() (agent.Objects, error)
	active   func() string
	key      func() (model.PrivateKey, error)
	endpoint func(*v1alpha1.TunnelEndpoint) (at netip.AddrPort, heard bool)
	// mtu is that of the network of one of the node's addresses.
	mtu func(netip.Addr) (int, error)

	inner        kernel.Kernel
	host, inside *apply.Applier
	prober       *probe.Prober
	echo         *probe.Echo
	metrics      *agent.Metrics
	// wrote is told when a pass has changed something; nil: nobody is.
	wrote chan struct{}

	mu   sync.Mutex
	last outcome
}

// outcome is what a pass came to.
type outcome struct {
	applied bool // it came as far as writing
	active  bool
	// publicKey is that of the key which the tunnel has; empty if that is not
	// known.
	publicKey string
	mtu       int                        // by this node's network, before anything is agreed upon
	peers     map[string]model.PublicKey // by name, of those that are served
	control   map[string]controlled      // by cluster id, of those that are
	refused   map[string]string
	leftOut   map[string][]string
	failed    string
}

// controlled is what of the control plane goes to a peer, and where it is.
type controlled struct {
	at   netip.Addr
	part model.Control
}

// pass makes the node's kernel hold what the objects ask for, and nothing else.
// While nobody has ever been active there is nothing to do.
func (w *worker) pass(ctx context.Context) error {
	began := time.Now()
	active := w.active()
	if active == "" {
		return nil
	}
	writes, result, err := w.apply(ctx, active)
	if !result.applied && active != w.self {
		left, leaveErr := w.leave()
		writes, err = writes+left, errors.Join(err, leaveErr)
	}
	if err != nil {
		result.failed = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	w.mu.Lock()
	if result.applied {
		w.last = result
	} else {
		w.last.failed = result.failed
		w.last.active = w.last.active && active == w.self
	}
	w.mu.Unlock()
	if writes > 0 {
		select {
		case w.wrote <- struct{}{}:
		default:
		}
	}
	w.metrics.ObservePass(time.Since(began), writes, err)
	return err
}

func (w *worker) apply(ctx context.Context, active string) (writes int, result outcome, err error) {
	o, err := w.objects()
	if err != nil {
		return 0, outcome{}, err
	}
	o.Active, o.Gateways = active, append(o.Gateways, w.self)
	t := agent.Translate(w.self, w.cluster, o, w.endpoint)
	if t.Input.PrivateKey, err = w.key(); err != nil {
		return 0, outcome{}, err
	}
	if t.Input.MTU == 0 {
		if t.Input.MTU, err = agent.NodeMTU(t.Input, w.mtu); err != nil {
			return 0, outcome{}, err
		}
	}
	host, inside, refused, err := model.Gateway(t.Input)
	if err != nil {
		return 0, outcome{}, fmt.Errorf("this cluster's own values make no sense: %w", err)
	}
	t.Refuse(refused)
	if len(t.NodesLeftOut) > 0 {
		klog.FromContext(ctx).V(2).Info("Nodes without an address of their own that the overlay can use are left out", "nodes", t.NodesLeftOut)
	}

	onHost, hostErr := w.host.Apply(host)
	within, insideErr := w.inside.Apply(inside)
	result = outcome{
		applied: true, active: active == w.self, peers: make(map[string]model.PublicKey),
		mtu: t.Input.PeerMTU(0), refused: t.Refused, leftOut: t.LeftOut, control: make(map[string]controlled),
	}
	w.probe(t, &result)
	// What is told to others is what is, and not what was to be.
	tunnel, tunnelErr := w.inner.Tunnel(model.TunnelLink)
	if tunnelErr == nil && tunnel.PrivateKey != (model.PrivateKey{}) {
		result.publicKey = tunnel.PrivateKey.Public().String()
	}
	return onHost + within, result, errors.Join(hostErr, insideErr, tunnelErr)
}

// leave takes the peers of the tunnel away, where another gateway is the active
// one and nothing else can be done: it would draw their packets.
func (w *worker) leave() (writes int, err error) {
	tunnel, err := w.inner.Tunnel(model.TunnelLink)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil // there is no tunnel
	}
	if err != nil || len(tunnel.Peers) == 0 {
		return 0, err
	}
	var change kernel.TunnelChange
	for _, p := range tunnel.Peers {
		change.Remove = append(change.Remove, p.PublicKey)
	}
	return 1, w.inner.ChangeTunnel(model.TunnelLink, change)
}

// probe has those peers probed and answered that are served, by the active one.
func (w *worker) probe(t agent.Translation, result *outcome) {
	targets := make(map[string]probe.Target)
	var answered []netip.Addr
	for _, p := range t.Input.Peers {
		name := t.Names[p.ClusterID]
		if _, refused := t.Refused[name]; refused {
			continue
		}
		result.peers[name] = p.PublicKey
		result.control[p.ClusterID] = controlled{at: model.ControlAddress(p.PublicKey), part: p.Control}
		if !result.active {
			continue
		}
		for _, target := range gatewaysOf(p) {
			if _, there := targets[name]; !there {
				target.MTU, target.Key, target.Endpoint = t.Input.PeerMTU(p.MTU), p.PublicKey, p.Endpoint
				targets[name] = target
			}
			answered = append(answered, target.Peer)
		}
	}
	w.prober.Set(targets)
	w.echo.Allow(answered)
}

// gatewaysOf are the peer's gateway, one address of each family, as we see it:
// what stands for whatever is no pod there. We ask it from our own, which is
// translated on the way to one that the peer knows.
func gatewaysOf(p model.Peer) []probe.Target {
	var targets []probe.Target
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		remote := slices.IndexFunc(p.Remote, func(r netip.Prefix) bool { return model.FamilyOf(r.Addr()) == family })
		knowsUs := slices.ContainsFunc(p.Local, func(r netmap.CIDRMapping) bool { return model.FamilyOf(r.Mapped.Addr()) == family })
		if remote >= 0 && knowsUs {
			targets = append(targets, probe.Target{Peer: p.Remote[remote].Addr(), Self: model.GatewaySelf(family)})
		}
	}
	return targets
}

// outcome is that of the last pass.
func (w *worker) outcome() outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
