// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/model"
)

// Cluster is the part of the agents' options that is equal on all nodes.
type Cluster struct {
	// MTU is the MTU of the network between the nodes, in bytes.
	MTU int
	// Port is the UDP port of the gateways.
	Port int
}

// Objects are the API objects from which the state of a node is computed.
type Objects struct {
	// Ranges are the address ranges in the ClusterInfo named local; empty while it has none.
	Ranges          netmap.Ranges
	TunnelEndpoints []*v1alpha1.TunnelEndpoint
	// Mappings are all AddressMappings of the namespace, even if no mapped address is allocated to them yet.
	Mappings []*v1alpha1.AddressMapping
	// Reaches are the TunnelReaches of the namespace.
	Reaches []*v1alpha1.TunnelReach
	// Nodes are the nodes of the cluster; virtual nodes are ignored.
	Nodes []*corev1.Node
	// Gateways are the nodes that run a gateway. Active is the node of the active gateway; empty if there is
	// none.
	Gateways []string
	Active   string
}

// Translation is the input of package model for a node, with descriptions of the objects omitted from it.
type Translation struct {
	Input model.Input
	// Refused holds, by name of the TunnelEndpoint, why its peer is not served.
	Refused map[string]string
	// LeftOut has descriptions of the AddressMappings and the addresses of pods that are omitted from a served peer, by
	// name of its TunnelEndpoint.
	LeftOut map[string][]string
	// NodesLeftOut are the names of nodes without a usable address.
	NodesLeftOut []string
	// Names maps cluster IDs to names of TunnelEndpoints.
	Names map[string]string
}

// Refuse adds the refusals of package model to Refused.
func (t Translation) Refuse(refusals []model.Refusal) {
	for _, r := range refusals {
		t.Refused[t.Names[r.ClusterID]] = r.Reason
	}
}

// Translate returns the model's input for a node. An invalid object has no effect on other objects: invalid
// TunnelEndpoints are refused, and nodes without a usable address are left out. The result does not depend on the order
// of the objects.
//
// endpointOf returns the endpoint of a peer, invalid if there is none, and whether it was learned from received
// packets (see Endpoints.Of).
func Translate(
	node string,
	c Cluster,
	o Objects,
	endpointOf func(*v1alpha1.TunnelEndpoint) (address netip.AddrPort, learned bool),
) Translation {
	t := Translation{
		Input: model.Input{
			Node: node, Active: o.Active, MTU: c.MTU, Port: c.Port,
			PodCIDRs: o.Ranges.Pods, Virtual: slices.Concat(o.Ranges.Services, o.Ranges.External),
			Reserved: slices.Concat(o.Ranges.Nodes, o.Ranges.Reserved),
		},
		Refused: make(map[string]string),
		LeftOut: make(map[string][]string),
		Names:   make(map[string]string),
	}
	t.Input.Nodes, t.NodesLeftOut = nodes(o.Ranges.Pods, o.Nodes)
	t.Input.Gateways = gateways(t.Input.Nodes, o)

	mappings := make(map[string][]*v1alpha1.AddressMapping)
	for _, m := range o.Mappings {
		if m.Spec.Address != "" {
			mappings[m.Spec.ClusterID] = append(mappings[m.Spec.ClusterID], m)
		}
	}
	endpoints := slices.Clone(o.TunnelEndpoints)
	slices.SortFunc(endpoints, func(a, b *v1alpha1.TunnelEndpoint) int { return cmp.Compare(a.Name, b.Name) })
	for _, te := range endpoints {
		if other, ok := t.Names[te.Spec.ClusterID]; ok {
			t.Refused[te.Name] = fmt.Sprintf("TunnelEndpoint %s is for the same cluster", other)
			continue
		}
		t.Names[te.Spec.ClusterID] = te.Name
		peer, leftOut, err := translatePeer(o.Ranges, te, mappings[te.Spec.ClusterID])
		if err != nil {
			t.Refused[te.Name] = err.Error()
			continue
		}
		leftOut = append(leftOut, translateReach(&peer, te, o.Reaches)...)
		if len(leftOut) > 0 {
			t.LeftOut[te.Name] = leftOut
		}
		peer.Endpoint, peer.EndpointLearned = endpointOf(te)
		t.Input.Peers = append(t.Input.Peers, peer)
	}
	return t
}

// gateways returns the names of the known nodes that run a gateway, active or standby.
func gateways(known []model.Node, o Objects) []string {
	all := append(slices.Clone(o.Gateways), o.Active)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		return !slices.ContainsFunc(known, func(n model.Node) bool { return n.Name == name })
	})
}

// translatePeer returns the peer of a TunnelEndpoint, and descriptions of the AddressMappings that are left out.
// It fails if the TunnelEndpoint is invalid.
func translatePeer(
	local netmap.Ranges,
	te *v1alpha1.TunnelEndpoint,
	mappings []*v1alpha1.AddressMapping,
) (model.Peer, []string, error) {
	peer := model.Peer{
		ClusterID: te.Spec.ClusterID,
		MTU:       int(te.Spec.MTU),
		PathMTU:   int(te.Status.PathMTU),
		Control: model.Control{
			Serve: slices.Contains(
				te.Spec.Control,
				v1alpha1.TunnelControlServe,
			), Call: slices.Contains(te.Spec.Control, v1alpha1.TunnelControlCall),
		},
	}
	key, err := base64.StdEncoding.DecodeString(te.Spec.PublicKey)
	if err != nil || len(key) != len(peer.PublicKey) {
		return model.Peer{}, nil, errors.New("its public key is not 32 bytes in base64")
	}
	copy(peer.PublicKey[:], key)

	ranges, err := netmap.ParseTranslation(te.Spec.Local, te.Spec.Remote)
	if err != nil {
		return model.Peer{}, nil, err
	}
	var external netmap.CIDRMappings
	for _, r := range ranges.Local {
		switch {
		case netmap.Covers(local.Pods, r.CIDR):
			peer.Local = append(peer.Local, r)
		case netmap.Covers(local.External, r.CIDR) || holdsMapping(r.CIDR, mappings):
			external = append(external, r)
		default:
			// The local pod ranges have changed since the peer agreed to this CIDR. The tunnel uses the CIDR until the peer has
			// agreed to the new ranges.
			peer.Local = append(peer.Local, r)
		}
	}
	for _, r := range ranges.Remote {
		peer.Remote = append(peer.Remote, r.Mapped)
	}
	var leftOut []string
	for _, m := range mappings {
		mapping, err := translateMapping(m, external)
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("AddressMapping %s: %v", m.Name, err))
			continue
		}
		peer.Mappings = append(peer.Mappings, mapping)
	}
	slices.Sort(leftOut)
	slices.SortFunc(peer.Mappings, func(a, b model.Mapping) int { return a.Seen.Compare(b.Seen) })
	return peer, leftOut, nil
}

// translateReach sets the addresses of pods that a peer may reach, and returns descriptions of those that are left out.
// With reach Offloaded, a peer without a TunnelReach reaches no pod. An unknown reach counts as Offloaded.
func translateReach(peer *model.Peer, te *v1alpha1.TunnelEndpoint, reaches []*v1alpha1.TunnelReach) (leftOut []string) {
	if !restricted(te) {
		return nil
	}
	peer.Offloaded = true
	at := slices.IndexFunc(reaches, func(r *v1alpha1.TunnelReach) bool {
		return r.Name == te.Name && r.Spec.ClusterID == te.Spec.ClusterID
	})
	if at < 0 {
		return nil
	}
	for _, text := range reaches[at].Spec.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("TunnelReach %s: %q is not an IP address", te.Name, text))
			continue
		}
		peer.Reachable = append(peer.Reachable, address)
	}
	return leftOut
}

// holdsMapping reports whether a CIDR contains the mapped address of an AddressMapping. Such a CIDR is external,
// as AddressMappings never expose pods.
func holdsMapping(cidr netip.Prefix, mappings []*v1alpha1.AddressMapping) bool {
	return slices.ContainsFunc(mappings, func(m *v1alpha1.AddressMapping) bool {
		mapped, err := netip.ParseAddr(m.Spec.Mapped)
		return err == nil && cidr.Contains(mapped)
	})
}

// translateMapping translates the mapped address, which is in a local external CIDR, into the address that the peer
// uses for it. It fails if the peer has agreed to no external CIDR that contains the mapped address. It also fails for
// link-local addresses and metadata services: they receive the peer's packets from the address of the gateway's node,
// and could mistake the peer for this node.
func translateMapping(m *v1alpha1.AddressMapping, external netmap.CIDRMappings) (model.Mapping, error) {
	target, err := netip.ParseAddr(m.Spec.Address)
	if err != nil {
		return model.Mapping{}, fmt.Errorf("%q is not an IP address", m.Spec.Address)
	}
	if target.Unmap().IsLinkLocalUnicast() || slices.ContainsFunc(netmap.MetadataServices, func(p netip.Prefix) bool {
		return p.Contains(target.Unmap())
	}) {
		return model.Mapping{}, fmt.Errorf("%s is link-local or a metadata service", target)
	}
	mapped, err := netip.ParseAddr(m.Spec.Mapped)
	if err != nil {
		return model.Mapping{}, fmt.Errorf("%q is not an IP address", m.Spec.Mapped)
	}
	var ports []model.Port
	for _, port := range m.Spec.Ports {
		ports = append(ports, model.Port{Protocol: strings.ToLower(string(port.Protocol)), Number: uint16(port.Port)})
	}
	if seen, ok := external.Translate(mapped); ok {
		return model.Mapping{Seen: seen, Target: target, Ports: ports}, nil
	}
	return model.Mapping{}, fmt.Errorf("%s is in none of the external CIDRs agreed upon with the peer", mapped)
}

// nodes returns the nodes that packets can be sent to, and the names of all other nodes. A node is left out if it has
// no address in the overlay's family, or no IPv4 address although the cluster has IPv4 pod ranges. Kubelets write the
// status of their Nodes, and one node must not be able to disrupt another: therefore a node with an address of an older
// node is left out, too, and pod CIDRs outside of the cluster's pod ranges are ignored.
func nodes(pods []netip.Prefix, all []*corev1.Node) (usable []model.Node, leftOut []string) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	overlay := overlayFamily(all)
	needs4 := slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Addr().Is4() })
	taken := make(map[netip.Addr]bool)
	for _, n := range all {
		if n.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode {
			continue
		}
		addresses := addressesOf(n, corev1.NodeInternalIP)
		slices.SortStableFunc(addresses, func(a, b netip.Addr) int {
			if first := model.FamilyOf(a) == overlay; first != (model.FamilyOf(b) == overlay) {
				return map[bool]int{true: -1, false: 1}[first]
			}
			return 0
		})
		if len(addresses) == 0 || model.FamilyOf(addresses[0]) != overlay ||
			needs4 && !slices.ContainsFunc(addresses, netip.Addr.Is4) ||
			slices.ContainsFunc(addresses, func(a netip.Addr) bool { return taken[a] }) {
			leftOut = append(leftOut, n.Name)
			continue
		}
		for _, a := range addresses {
			taken[a] = true
		}
		usable = append(usable, model.Node{
			Name: n.Name, Addresses: addresses, External: addressesOf(n, corev1.NodeExternalIP), PodCIDRs: podCIDRs(pods, n),
		})
	}
	slices.SortFunc(usable, func(a, b model.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(leftOut)
	return usable, leftOut
}

// overlayFamily returns the family that the first addresses of most nodes have. All nodes must use the same family. It
// returns IPv4 if both families are equally frequent.
func overlayFamily(all []*corev1.Node) model.Family {
	balance := 0
	for _, n := range all {
		if addresses := addressesOf(n, corev1.NodeInternalIP); len(addresses) == 0 ||
			n.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode {
			continue
		} else if addresses[0].Is4() {
			balance++
		} else {
			balance--
		}
	}
	if balance < 0 {
		return model.IPv6
	}
	return model.IPv4
}

func addressesOf(n *corev1.Node, kind corev1.NodeAddressType) []netip.Addr {
	var addresses []netip.Addr
	for _, address := range n.Status.Addresses {
		if address.Type != kind {
			continue
		}
		a, err := netip.ParseAddr(address.Address)
		if err != nil || a.Zone() != "" || !a.Unmap().IsGlobalUnicast() || slices.Contains(addresses, a.Unmap()) {
			continue
		}
		addresses = append(addresses, a.Unmap())
	}
	return addresses
}

// podCIDRs returns the node's pod CIDRs that are in the cluster's pod ranges.
func podCIDRs(pods []netip.Prefix, n *corev1.Node) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil && p == p.Masked() && netmap.Covers(pods, p) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

// NodeMTU returns the MTU, in bytes, of the link that has the address of the input's node; mtu returns the MTU of
// a link by address. It fails if the input does not contain the node, or mtu fails.
func NodeMTU(in model.Input, mtu func(netip.Addr) (int, error)) (int, error) {
	for _, n := range in.Nodes {
		if n.Name == in.Node {
			return mtu(n.Addresses[0])
		}
	}
	return 0, fmt.Errorf("node %s has no unique internal IP address in the family of the overlay", in.Node)
}

// NodeAddress returns the address at which the overlay and other agents reach a node. It fails if the node does
// not exist or has no usable address.
func NodeAddress(o Objects, name string) (netip.Addr, error) {
	usable, _ := nodes(o.Ranges.Pods, o.Nodes)
	for _, n := range usable {
		if n.Name == name {
			return n.Addresses[0], nil
		}
	}
	return netip.Addr{}, fmt.Errorf(
		"node %s does not exist or has no unique internal IP address in the family of the overlay",
		name,
	)
}
