// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/fakes"
	"liqo.io/federation/test/netns/world"
)

const (
	// soon is the timeout for states that the agents reach on their own, without a change of an object.
	soon = time.Minute
	// written is the duration of a status update, as with a real API server. Without it, updates
	// would overflow the watches of the agents, which buffer 100 events.
	written = time.Millisecond
)

// implementation is the WireGuard implementation that was used last: the kernel's, or the one in user space.
var implementation kernel.Implementation

// fabric is two clusters of network namespaces, a World, in which the agents run.
type fabric struct {
	*world.World
	rome, milan             *world.API
	gateways                map[string]*world.Process // by node
	routes                  []*world.Process
	resync                  time.Duration
	moreOfRome, moreOfMilan []runtime.Object
}

// start creates a world, and runs its agents until both clusters report a connected tunnel.
func (f *fabric) start(ctx context.Context, o world.Options) (err error) {
	if f.World, err = world.New(o); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	f.gateways = make(map[string]*world.Process)
	// Only rome's TunnelEndpoint has an endpoint of the peer, so rome initiates handshakes. Milan replies to every gateway
	// of rome.
	calls := []string{f.Rome.Input.Peers[0].Endpoint.String()}
	f.rome = newAPI(f.Rome, append(f.moreOfRome, tunnelTo("milan", f.Rome.Input.Peers[0], calls))...)
	f.milan = newAPI(f.Milan, append(f.moreOfMilan, tunnelTo("rome", f.Milan.Input.Peers[0], nil))...)
	if err := f.startGateway(ctx, f.Rome, f.Rome.Nodes[0]); err != nil {
		return err
	}
	if err := f.startGateway(ctx, f.Milan, f.Milan.Nodes[0]); err != nil {
		return err
	}
	for _, c := range []*world.Cluster{f.Rome, f.Milan} {
		for _, n := range c.Nodes {
			o := f.Options(c, n)
			if f.resync > 0 {
				o.Resync = f.resync
			}
			p, err := f.StartRoute(ctx, n, f.api(c), o)
			if err != nil {
				return err
			}
			f.routes = append(f.routes, p)
		}
	}
	err = errors.Join(f.connected(ctx, f.rome, "milan", "rome-1"), f.connected(ctx, f.milan, "rome", "milan-1"))
	implementation = f.Rome.Nodes[0].Inner.Implementation(model.TunnelLink)
	return err
}

// stop stops all agents and deletes the world.
func (f *fabric) stop() error {
	var errs []error
	for _, p := range f.agents() {
		errs = append(errs, p.Stop())
	}
	return errors.Join(append(errs, f.Close())...)
}

// agents returns the agents of both clusters.
func (f *fabric) agents() []*world.Process {
	return slices.Concat(f.routes, slices.Collect(maps.Values(f.gateways)))
}

// quiet waits until every tunnel has a status and no agent is working.
func (f *fabric) quiet(ctx context.Context) error {
	for _, api := range []*world.API{f.rome, f.milan} {
		err := eventually(ctx, "every tunnel is configured", func() (bool, error) {
			tunnels, err := api.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation).List(ctx,
				metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			untold := func(te v1alpha1.TunnelEndpoint) bool { return te.Status.Phase == "" }
			return !slices.ContainsFunc(tunnels.Items, untold), nil
		})
		if err != nil {
			return err
		}
	}
	return crowded{World: f.World, processes: f.agents()}.quiet(ctx)
}

// bothInitiate waits until each gateway has an endpoint of the other one. Milan's gateway has no configured endpoint.
// It reports the endpoint that it observes, and then configures it, which is the last change after the start.
func (f *fabric) bothInitiate(ctx context.Context) error {
	return eventually(ctx, "either gateway has an endpoint of the other", func() (bool, error) {
		for _, c := range []*world.Cluster{f.Rome, f.Milan} {
			tunnel, err := c.Nodes[0].Inner.Tunnel(model.TunnelLink)
			calls := func(p model.TunnelPeer) bool { return p.PublicKey == c.Input.Peers[0].PublicKey && p.Keepalive > 0 }
			if err != nil || !slices.ContainsFunc(tunnel.Peers, calls) {
				return false, err
			}
		}
		return true, nil
	})
}

func (f *fabric) api(c *world.Cluster) *world.API {
	if c == f.Rome {
		return f.rome
	}
	return f.milan
}

func (f *fabric) startGateway(ctx context.Context, c *world.Cluster, n *world.Node) error {
	if n.Inner == nil {
		if err := f.AddGateway(n); err != nil {
			return err
		}
	}
	if _, again := f.gateways[n.Name]; !again {
		if err := f.api(c).AddGatewayPod(ctx, n.Name); err != nil {
			return err
		}
	}
	o := f.GatewayOptions(c, n)
	if f.resync > 0 {
		o.Resync = f.resync
	}
	p, err := f.StartGateway(ctx, n, f.api(c), o)
	if err == nil {
		f.gateways[n.Name] = p
	}
	return err
}

// connected waits until a cluster reports that the gateway on a node has connected the tunnel.
func (f *fabric) connected(ctx context.Context, a *world.API, tunnel, gateway string) error {
	return eventually(ctx, fmt.Sprintf("the gateway on %[2]s connects the tunnel to %[1]s", tunnel, gateway),
		func() (bool, error) {
			te, err := a.Tunnel(ctx, tunnel)
			return err == nil && te.Status.Phase == v1alpha1.TunnelConnected && te.Status.Gateway == gateway, err
		})
}

func newAPI(c *world.Cluster, objects ...runtime.Object) *world.API {
	a := world.NewAPI(c, objects...)
	fakes.React(a.Federation, "update", "tunnelendpoints", func(clienttesting.Action) (bool, runtime.Object, error) {
		time.Sleep(written)
		return false, nil, nil
	})
	return a
}

// tunnelTo returns the TunnelEndpoint of a peer, as the controllers write it.
func tunnelTo(name string, p model.Peer, endpoints []string) *v1alpha1.TunnelEndpoint {
	var local, remote [][2]string
	for _, r := range p.Local {
		local = append(local, [2]string{r.CIDR.String(), r.Mapped.String()})
	}
	for _, r := range p.Remote {
		remote = append(remote, [2]string{r.String(), r.String()})
	}
	return world.EndpointOf(name, p.PublicKey, endpoints, local, remote)
}

// pollInterval is not shorter, because each poll gathers thousands of metrics on the processors
// that are measured.
const pollInterval = 20 * time.Millisecond

// eventually polls until a condition holds. It fails if holds returns an error, or after the
// timeout soon.
func eventually(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// milanPod is the address by which pods of cluster rome reach the second pod of cluster milan. The pod's node has no
// active gateway.
var milanPod = netip.MustParseAddr("10.1.2.2")
