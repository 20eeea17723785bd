// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"net/netip"
	"testing"

	"liqo.io/federation/test/netns/world"
)

// clusterIP is the address of a Service.
const clusterIP = "10.96.0.9"

// proxies translates connections like kube-proxy in a mode: connections to a port, of every address of a node and of
// clusterIP, reach the same port of a pod.
type proxies func(t *testing.T, n *world.Node, pod netip.Addr)

// proxiesByNFTables writes the rules of kube-proxy in nftables mode, with the option that node ports are reachable at
// all addresses of a node. Connections from outside of the pod CIDR 10.0.0.0/16 are masqueraded.
func proxiesByNFTables(t *testing.T, n *world.Node, pod netip.Addr) {
	t.Helper()
	commands := []string{
		"add table ip kube-proxy",
		"add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }",
		"add chain ip kube-proxy nat-output { type nat hook output priority -100 ; }",
		"add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100 ; }",
		"add chain ip kube-proxy services", "add chain ip kube-proxy masquerading",
		"add chain ip kube-proxy external", "add chain ip kube-proxy service",
		"add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }",
		"add map ip kube-proxy service-nodeports { type inet_proto . inet_service : verdict ; }",
		"add rule ip kube-proxy nat-prerouting jump services", "add rule ip kube-proxy nat-output jump services",
		"add rule ip kube-proxy nat-postrouting jump masquerading",
		"add rule ip kube-proxy masquerading mark and 0x4000 != 0 mark set mark xor 0x4000 masquerade fully-random",
		"add rule ip kube-proxy services ip daddr " + clusterIP + " ip saddr != 10.0.0.0/16 mark set mark or 0x4000",
		"add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips",
		"add rule ip kube-proxy services fib daddr type local ip daddr != 127.0.0.0/8 " +
			"meta l4proto . th dport vmap @service-nodeports",
		"add rule ip kube-proxy external mark set mark or 0x4000", "add rule ip kube-proxy external goto service",
	}
	for _, protocol := range []string{"tcp", "udp"} {
		commands = append(commands,
			fmt.Sprintf("add rule ip kube-proxy service meta l4proto %s dnat to %s:%d", protocol, pod, port),
			fmt.Sprintf("add element ip kube-proxy service-ips { %s . %s . %d : goto service }", clusterIP, protocol, port),
			fmt.Sprintf("add element ip kube-proxy service-nodeports { %s . %d : goto external }", protocol, port))
	}
	for _, c := range commands {
		run(t, n.NS, "nft "+c)
	}
}

// proxiesByIPTables returns the rules by which kube-proxy in iptables mode translates connections to node ports.
func proxiesByIPTables(iptables string) proxies {
	return func(t *testing.T, n *world.Node, pod netip.Addr) {
		t.Helper()
		for _, protocol := range []string{"tcp", "udp"} {
			run(t, n.NS, fmt.Sprintf("iptables-%s -t nat -A PREROUTING -p %s --dport %d -m addrtype --dst-type LOCAL "+
				"-j DNAT --to-destination %s", iptables, protocol, port, pod))
		}
	}
}

// In nftables mode, kube-proxy masquerades in a chain of the same hook and priority as the POSTROUTING chain of
// iptables. Either of the two can be evaluated first, depending on which program started last.
func TestServicesOfPodsOnPeersAreReachedWithKubeProxyInNFTablesMode(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		for _, last := range []string{"kube-proxy", "agents"} {
			t.Run(iptables+", "+last+" start last", func(t *testing.T) {
				w := newFabric(t, iptables)
				server := world.Addr("10.1.1.2")
				serve(t, w.Milan.Nodes[0].Pod)
				proxy := func() {
					for _, n := range w.Rome.Nodes {
						proxiesByNFTables(t, n, server)
					}
				}
				// masquerade selects an address of lo, if it has one that other machines can use.
				for _, n := range w.Rome.Nodes {
					ip(t, n.NS, "route add default dev eth0", "addr add 198.51.100.7/32 dev lo")
				}
				if last == "agents" {
					proxy()
				}
				w.apply(t)
				if last == "kube-proxy" {
					proxy()
				}
				w.unchanged(t)
				stranger := w.stranger(t)
				for i, n := range w.Rome.Nodes {
					// On milan, pods of rome are in 10.2.0.0/16, and nodes of rome have its first address.
					exchange(t, "from the pod on "+n.Name+" to the Service", n.Pod, world.Addr(clusterIP),
						world.Addr(fmt.Sprintf("10.2.%d.2", i+1)))
					exchange(t, "from "+n.Name+" itself to the Service", n.NS, world.Addr(clusterIP), world.Addr("10.2.0.0"))
					exchange(t, "from another machine to the node port on "+n.Name, stranger, n.V4, world.Addr("10.2.0.0"))
				}
				w.teardown(t)
			})
		}
	}
}
