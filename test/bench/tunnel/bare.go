// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/netip"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

const bareLink = "wg0"

// bare is two clusters of network namespaces, a World, without agents. The first nodes of the clusters are connected by
// WireGuard, in the implementation that the agents use, and the other nodes route to them. Packets take the same hops
// as with agents, but pass no overlay, gateway namespace, or rules.
type bare struct {
	*world.World
	// peers is the number of further peers in the configuration of each end. None of them is
	// reachable.
	peers int
	ends  []*kernel.Namespace
}

func (b *bare) start() (err error) {
	if b.World, err = world.New(world.Options{Iptables: "nft", Disjoint: true}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	for _, n := range b.Nodes() {
		for _, command := range []string{"iptables-nft -P FORWARD ACCEPT", "iptables-nft -t nat -F POSTROUTING",
			"nft delete table ip cni"} {
			if _, err := world.Run(n.NS, command); err != nil {
				return err
			}
		}
	}
	for _, end := range []struct{ local, remote *world.Cluster }{{b.Rome, b.Milan}, {b.Milan, b.Rome}} {
		if err := b.end(end.local, end.remote); err != nil {
			return err
		}
	}
	return nil
}

// end creates the WireGuard link of one cluster and the routes to it.
func (b *bare) end(local, remote *world.Cluster) error {
	first, second := local.Nodes[0], local.Nodes[1]
	// WireGuard's socket stays in the network namespace in which the link was created.
	ns, err := first.NS.Enter(b.Path(first.Name))
	if err != nil {
		return err
	}
	b.ends = append(b.ends, ns)
	link := model.Link{Name: bareLink, Kind: model.WireGuard, MTU: world.TunnelMTU}
	if err := errors.Join(ns.AddLink(link), ns.SetLink(link)); err != nil {
		return err
	}
	port, pods := world.Port, remote.Input.PodCIDRs[0]
	var crowd []model.TunnelPeer
	for i := range b.peers {
		crowd = append(crowd, model.TunnelPeer{PublicKey: nthKey(i), AllowedIPs: []netip.Prefix{nthRange(i)}})
	}
	if err := ns.ChangeTunnel(bareLink, kernel.TunnelChange{
		PrivateKey: &local.Input.PrivateKey, Port: &port,
		Set: append(crowd, model.TunnelPeer{
			PublicKey: local.Input.Peers[0].PublicKey, AllowedIPs: []netip.Prefix{pods},
			Endpoint: netip.AddrPortFrom(remote.Nodes[0].V4, world.Port),
		}),
	}); err != nil {
		return err
	}
	return errors.Join(
		world.IP(first.NS, "route add "+pods.String()+" dev "+bareLink),
		world.IP(second.NS, "route add "+pods.String()+" via "+first.V4.String()))
}

func (b *bare) stop() error {
	var errs []error
	for _, ns := range b.ends {
		errs = append(errs, ns.Close())
	}
	return errors.Join(append(errs, b.Close())...)
}
