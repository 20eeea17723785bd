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
	// Gateways are the nodes that run a gateway, active or standby. Active is the node of the active gateway.
	Gateways []string
	Active   string
	// PodCIDRs are the pod CIDRs of the cluster. Their address families are the families in which pods are
	// connected.
	PodCIDRs []netip.Prefix
	// Virtual are local ranges without addresses of machines, for example the Service CIDRs. Reserved are local ranges
	// that contain such addresses. Peers must not announce a range that overlaps one of them, and their endpoints must not
	// be in Virtual.
	Virtual, Reserved []netip.Prefix
	// MTU is the MTU of the network between the nodes, in bytes.
	MTU int
	// Port is the UDP port of the gateways. PrivateKey is the private key of the tunnel, which only Gateway
	// requires.
	Port       int
	PrivateKey PrivateKey
	Peers      []Peer
}

// Node is a node of the cluster.
type Node struct {
	Name string
	// Addresses are the internal addresses of the node. The overlay uses the first one.
	Addresses []netip.Addr
	// External are the external addresses of the node. The agents send no packets to them, and peers must not announce
	// them.
	External []netip.Addr
	// PodCIDRs are the CIDRs of the pods on the node, if the CNI publishes them. The CNI routes packets from peers to pods
	// outside of these CIDRs.
	PodCIDRs []netip.Prefix
}

// Peer is a remote cluster with a tunnel to the local cluster.
type Peer struct {
	ClusterID string
	PublicKey PublicKey
	// Endpoint is the address of the peer's gateway; invalid if only the peer can initiate handshakes.
	Endpoint netip.AddrPort
	// EndpointLearned is set if Endpoint is the source of packets received from the peer. Such an endpoint may be
	// a local address, for example after NAT by a NodePort, as the peer did not choose it.
	EndpointLearned bool
	// MTU is the size of the largest packet inside of the tunnel, in bytes; 0 means Input.MTU less the headers of the
	// tunnel.
	MTU int
	// PathMTU is the size of the largest packet that reached the peer, in bytes, if it is less than MTU; 0 means
	// MTU.
	PathMTU int
	// Local are the local CIDRs, with the remapped CIDRs by which the peer reaches them. In each family, the
	// first address of the first remapped CIDR represents everything that is not a pod, for example nodes and
	// clients outside of the cluster.
	Local []netmap.CIDRMapping
	// Remote are the CIDRs by which the local cluster reaches the peer. The remote gateway translates them into the peer's
	// own CIDRs.
	Remote []netip.Prefix
	// Mappings are the local addresses outside of Local that the peer may reach.
	Mappings []Mapping
	// Offloaded is set if the peer may connect to no address in Local except those in Reachable. Otherwise the peer may
	// connect to all of Local, and Reachable is ignored. Replies to connections that the peer did not open always pass.
	Offloaded bool
	// Reachable are the addresses of local pods that the peer may reach, before remapping. Addresses outside of Local
	// have no effect.
	Reachable []netip.Addr
	// Control is the control plane traffic that the tunnel carries. A peer with control plane traffic may have no
	// CIDRs, as the clusters agree upon them later.
	Control Control
}

// Mapping lets a peer reach the local address Target. The peer uses the address Seen for it.
type Mapping struct {
	Seen, Target netip.Addr
	// Ports are the ports that the peer may reach; empty means all.
	Ports []Port
}

// Port is a port of a protocol, whose name is that in iptables: tcp, udp or sctp.
type Port struct {
	Protocol string
	Number   uint16
}

// Refusal states why a peer is not served. It has no effect on other peers.
type Refusal struct {
	ClusterID string
	Reason    string
}
