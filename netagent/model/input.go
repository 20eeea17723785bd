// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"

	"liqo.io/federation/apiserver/netmap"
)

// Input is everything from which the state of a node is computed.
type Input struct {
	// Node is the name of the node to compute the state for.
	Node string
	// Nodes are all nodes of the cluster, including Node.
	Nodes []Node
	// Gateways are the nodes that run a gateway, active or standby; Active is the node of the active one.
	Gateways []string
	Active   string
	// PodCIDRs are the pod CIDRs of the cluster. Their families are the families that are configured.
	PodCIDRs []netip.Prefix
	// Virtual are local ranges without machines in them, for example that of Services; Reserved are further local
	// ranges. Peers must not announce either, and their endpoints must not be in Virtual.
	Virtual, Reserved []netip.Prefix
	// MTU is the MTU of the network between the nodes, in bytes.
	MTU int
	// Port is the UDP port of the gateways. PrivateKey is required by Gateway only.
	Port       int
	PrivateKey PrivateKey
	Peers      []Peer
}

// Node is a node of the cluster.
type Node struct {
	Name string
	// Addresses are its internal addresses. The overlay uses the first one.
	Addresses []netip.Addr
	// External are its addresses outside of the cluster. No packet is sent to them, and no peer may announce them.
	External []netip.Addr
	// PodCIDRs are the CIDRs of its pods, if the CNI publishes them. Packets from peers to other pods are routed
	// by the CNI.
	PodCIDRs []netip.Prefix
}

// Peer is a remote cluster. The CIDRs that it uses itself do not matter: its gateway translates them.
type Peer struct {
	ClusterID string
	PublicKey PublicKey
	// Endpoint is the address of its gateway; invalid if only the peer initiates handshakes.
	Endpoint netip.AddrPort
	// EndpointLearned is set if Endpoint is the source of packets received from the peer. It was not chosen by the
	// peer then, and may be a local address, for example after NAT by a NodePort.
	EndpointLearned bool
	// MTU is the size of the largest packet inside of the tunnel, in bytes; 0: derived from Input.MTU.
	MTU int
	// PathMTU is the size of the largest packet that reached the peer, in bytes, if that is less than MTU; 0: MTU
	// applies.
	PathMTU int
	// Local are the local CIDRs and their remapped CIDRs, which the peer uses. The first address of the first one
	// in each family represents everything that is not a pod, for example nodes and clients outside of the
	// cluster.
	Local []netmap.CIDRMapping
	// Remote are the peer's CIDRs as used in the local cluster.
	Remote []netip.Prefix
	// Mappings are further local addresses that the peer may reach.
	Mappings []Mapping
	// Control selects the control plane traffic of the tunnel. With any, a peer may have no CIDRs, as they are
	// agreed upon later.
	Control Control
}

// Mapping exposes a local address (Target) to a peer, which uses Seen instead.
type Mapping struct {
	Seen, Target netip.Addr
	// Ports are the ports that the peer may reach; empty: all.
	Ports []Port
}

// Port is a port of a protocol, which is named as in iptables: tcp, udp or sctp.
type Port struct {
	Protocol string
	Number   uint16
}

// Refusal is the reason for not serving a peer. Other peers are unaffected.
type Refusal struct {
	ClusterID string
	Reason    string
}
