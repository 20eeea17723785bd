// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// Filter sets the packet filter of the router. The router forwards packets between addresses of nodes and of this
// machine, unless the traffic between two clusters is cut, and drops all other packets.
func Filter(ctx context.Context, i *state.Instance) error {
	return apply(ctx, i.Router, routerRules(i))
}

func routerRules(i *state.Instance) string {
	cidrs := map[string]netip.Prefix{}
	nodes := []string{i.HostLink.Host.Masked().String()}
	for _, c := range i.Clusters {
		cidrs[c.Name] = c.NodeCIDR
		nodes = append(nodes, c.NodeCIDR.String())
	}
	var b strings.Builder
	b.WriteString("chain forward {\ntype filter hook forward priority filter; policy drop;\n")
	for _, cut := range i.Cuts {
		x, y := cidrs[cut.A], cidrs[cut.B]
		fmt.Fprintf(&b, "ip saddr %s ip daddr %s drop\nip saddr %s ip daddr %s drop\n", x, y, y, x)
	}
	all := strings.Join(nodes, ", ")
	fmt.Fprintf(&b, "ip saddr { %s } ip daddr { %s } accept\n}\n", all, all)
	return b.String()
}

// masquerade replaces the source of packets from pods to addresses outside of the cluster's pod CIDR by the address of
// their node, unless iptables on the node has replaced it already.
func masquerade(ctx context.Context, n *state.Node, pods netip.Prefix) error {
	return apply(ctx, n.Holder, fmt.Sprintf(
		"chain postrouting {\ntype nat hook postrouting priority srcnat + 1;\nip saddr %s ip daddr != %s masquerade\n}\n",
		pods, pods))
}

// apply replaces the playground's nftables table in the network namespace of a process atomically.
func apply(ctx context.Context, holder state.Process, chains string) error {
	const table = "table ip playground"
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(table + "\ndelete " + table + "\n" + table + " {\n" + chains + "}\n")
	err := sandbox.Enter(holder, false, func() error {
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("running nft: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
	return err
}
