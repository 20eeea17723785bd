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

// worker configures a gateway's node, in passes: each computes the state from the API objects and applies it.
type worker struct {
	self    string
	cluster agent.Cluster

	objects  func() (agent.Objects, error)
	active   func() string
	key      func() (model.PrivateKey, error)
	endpoint func(*v1alpha1.TunnelEndpoint) (address netip.AddrPort, learned bool)
	// mtu returns the MTU of the link with an address, in bytes.
	mtu func(netip.Addr) (int, error)

	inner        kernel.Kernel
	host, inside *apply.Applier
	prober       *probe.Prober
	echo         *probe.Echo
	metrics      *agent.Metrics
	// wrote is signalled after a pass that changed something; nil disables the signal.
	wrote chan struct{}

	mu   sync.Mutex
	last outcome
}

// outcome is the result of a pass.
type outcome struct {
	applied bool // whether the state was computed and written
	active  bool
	// publicKey is the public key of the tunnel; empty if it is not available.
	publicKey string
	mtu       int                        // permitted by the network of the nodes, in bytes, whatever was agreed upon
	peers     map[string]model.PublicKey // of the served peers, by name of the TunnelEndpoint
	control   map[string]controlTarget   // of the served peers, by cluster ID
	refused   map[string]string
	leftOut   map[string][]string
	failed    string
}

// controlTarget is the control address of a peer, and the control plane traffic that its tunnel carries.
type controlTarget struct {
	address netip.Addr
	control model.Control
}

// pass applies the state computed from the API objects to the kernel. It does nothing as long as no gateway has been
// active yet.
func (w *worker) pass(ctx context.Context) error {
	began := time.Now()
	active := w.active()
	if active == "" {
		return nil
	}
	writes, result, err := w.apply(ctx, active)
	if !result.applied && active != w.self {
		removed, removeErr := w.removePeers()
		writes, err = writes+removed, errors.Join(err, removeErr)
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
		return 0, outcome{}, fmt.Errorf("computing the state of the gateway: %w", err)
	}
	t.Refuse(refused)
	if len(t.NodesLeftOut) > 0 {
		klog.FromContext(ctx).V(2).Info("Ignoring nodes without a unique address for the overlay", "nodes", t.NodesLeftOut)
	}

	hostWrites, hostErr := w.host.Apply(host)
	insideWrites, insideErr := w.inside.Apply(inside)
	result = outcome{
		applied: true, active: active == w.self, peers: make(map[string]model.PublicKey),
		mtu: t.Input.PeerMTU(0), refused: t.Refused, leftOut: t.LeftOut, control: make(map[string]controlTarget),
	}
	w.probe(t, &result)
	// The status reports the key in the kernel, which is not the wanted one if applying failed.
	tunnel, tunnelErr := w.inner.Tunnel(model.TunnelLink)
	if tunnelErr == nil && tunnel.PrivateKey != (model.PrivateKey{}) {
		result.publicKey = tunnel.PrivateKey.Public().String()
	}
	return hostWrites + insideWrites, result, errors.Join(hostErr, insideErr, tunnelErr)
}

// removePeers removes all peers of the tunnel. It is called when another gateway is active and the state cannot
// be computed: with the peers, this gateway would receive packets for the active one.
func (w *worker) removePeers() (writes int, err error) {
	tunnel, err := w.inner.Tunnel(model.TunnelLink)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil // no tunnel
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

// probe adds the served peers to the result. It sets them as the peers that this gateway probes, and to whose probes it
// replies, if this gateway is active; otherwise it sets no peers.
func (w *worker) probe(t agent.Translation, result *outcome) {
	targets := make(map[string]probe.Target)
	var answered []netip.Addr
	for _, p := range t.Input.Peers {
		name := t.Names[p.ClusterID]
		if _, refused := t.Refused[name]; refused {
			continue
		}
		result.peers[name] = p.PublicKey
		result.control[p.ClusterID] = controlTarget{address: model.ControlAddress(p.PublicKey), control: p.Control}
		if !result.active {
			continue
		}
		for _, target := range probeTargets(p) {
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

// probeTargets returns the addresses of the peer's gateway, at most one per family: the first address of the
// peer's CIDRs. Probes are sent from the local gateway's own address, which is translated on the way to the peer.
func probeTargets(p model.Peer) []probe.Target {
	var targets []probe.Target
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		remote := slices.IndexFunc(p.Remote, func(r netip.Prefix) bool { return model.FamilyOf(r.Addr()) == family })
		hasLocal := slices.ContainsFunc(
			p.Local,
			func(r netmap.CIDRMapping) bool { return model.FamilyOf(r.Mapped.Addr()) == family },
		)
		if remote >= 0 && hasLocal {
			targets = append(targets, probe.Target{Peer: p.Remote[remote].Addr(), Self: model.GatewaySelf(family)})
		}
	}
	return targets
}

// outcome returns the result of the last pass that applied a state, with the error of the last pass.
func (w *worker) outcome() outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
