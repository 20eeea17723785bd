// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"

	"liqo.io/federation/apiserver/netmap"
)

// Input is everything that the state of a node follows from.
type Input struct {
	// Node is the name of the node that is computed for.
	Node string
	// Nodes are all nodes of the cluster, this one among them.
	Nodes []Node
	// Gateways are the nodes that run a gateway, the active one and those that
	// stand by; Active is the one that the traffic goes through.
	Gateways []string
	Active   string
	// PodCIDRs are those of the whole cluster; their families are the families
	// that are set up.
	PodCIDRs []netip.Prefix
	// Virtual are ranges of the cluster that no machine has an address of, as those
	// of Services. Reserved are others, of machines. No peer may announce either, and
	// none is called in Virtual.
	Virtual, Reserved []netip.Prefix
	// MTU is that of the network between the nodes, in bytes.
	MTU int
	// Port is the UDP port of the gateways. PrivateKey only Gateway needs.
	Port       int
	PrivateKey PrivateKey
	Peers      []Peer
}

// Node is a node of the cluster.
type Node struct {
	Name string
	// Addresses are its internal addresses. The first is where the overlay
	// finds it.
	Addresses []netip.Addr
	// External are those that others find it at, from outside: no packet of ours
	// goes there, and they are no peer's.
	External []netip.Addr
	// PodCIDRs are those of its pods, where the CNI says so. What comes from
	// peers for pods of no known node is left to the CNI.
	PodCIDRs []netip.Prefix
}

// Peer is another cluster, as agreed upon with it. What the peer calls its own
// CIDRs does not matter here: translating those is the work of its gateway.
type Peer struct {
	ClusterID string
	PublicKey PublicKey
	// Endpoint is where its gateway is called; invalid where it calls us.
	Endpoint netip.AddrPort
	// Heard tells that Endpoint is where it was heard from. That is not the peer's
	// choice, and an address of ours where something of ours has led it here.
	EndpointLearned bool
	// MTU is what a packet to the peer may measure inside of the tunnel, in
	// bytes; 0: what follows from Input.MTU.
	MTU int
	// PathMTU is what was found to pass where packets of that size do not, in
	// bytes; 0: they do.
	PathMTU int
	// Local are our CIDRs and what the peer sees in their place. The first
	// address of the first one of a family stands for what is no pod: nodes,
	// and whoever calls them.
	Local []netmap.CIDRMapping
	// Remote are the peer's CIDRs as we see them.
	Remote []netip.Prefix
	// Mappings are single addresses that the peer may call besides.
	Mappings []Mapping
	// Control is what of the control plane goes through the tunnel. A peer for
	// which some does may have no CIDRs, as before they are agreed upon.
	Control Control
}

// Mapping is an address that a peer sees, and the one that is meant.
type Mapping struct {
	Seen, Target netip.Addr
	// Ports are what the peer may call there; without any, everything.
	Ports []Port
}

// Port is one of a protocol, which has the name that iptables has for it: tcp, udp
// or sctp.
type Port struct {
	Protocol string
	Number   uint16
}

// Refusal tells why a peer is left out. The other peers are unaffected.
type Refusal struct {
	ClusterID string
	Reason    string
}
