// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"os/exec"
	"strings"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// node creates a node with one pod, connects the node to the bridge in w.Wire, and adds routes to the pods of the
// cluster's other node.
func (w *World) node(name string, cluster, number int, pods cidrs) (*Node, error) {
	n := &Node{
		Name: name, V4: Addr(
			fmt.Sprintf("172.16.%d.%d", cluster, number),
		), V6: Addr(fmt.Sprintf("fd00::%d:%d", cluster, number)),
	}
	var err error
	if n.NS, err = w.Enter(w.current, name); err != nil {
		return nil, err
	}
	if n.Pod, err = w.Enter(w.current, name+"-pod"); err != nil {
		return nil, err
	}
	wire, pod, other := w.Path("wire"), w.Path(name+"-pod"), 3-number
	for _, at := range []struct {
		ns       *kernel.Namespace
		commands []string
	}{
		{n.NS, []string{
			"link set lo up",
			"link add eth0 type veth peer name " + name + " netns " + wire,
			"addr add " + n.V4.String() + "/16 dev eth0", "addr add " + n.V6.String() + "/64 dev eth0 nodad", "link set eth0 up",
			"link add cni0 type veth peer name eth0 netns " + pod,
			fmt.Sprintf("addr add %s.%d.1/24 dev cni0", pods.v4, number), fmt.Sprintf(
				"addr add %s:0:%d::1/64 dev cni0 nodad", pods.v6, number,
			),
			"link set cni0 up",
			fmt.Sprintf("route add %s.%d.0/24 via 172.16.%d.%d", pods.v4, other, cluster, other),
			fmt.Sprintf("route add %s:0:%d::/64 via fd00::%d:%d", pods.v6, other, cluster, other),
			// Routes and rules of other programs may have the same numbers as the product's tables and rules.
			"route add 192.0.2.0/24 dev cni0 table 5872 proto 99", "route add 2001:db8::/64 dev cni0 table 5872 proto 99",
			"route add 192.0.2.0/24 dev cni0 table 5873 proto 99",
			"rule add priority 480 from 192.0.2.0/24 table 5872 protocol 99",
			"-6 rule add priority 480 from 2001:db8::/64 table 5872 protocol 99",
		}},
		{w.Wire, []string{"link set " + name + " master br0", "link set " + name + " up"}},
		{n.Pod, []string{
			"link set lo up",
			fmt.Sprintf("addr add %s.%d.2/24 dev eth0", pods.v4, number), fmt.Sprintf(
				"addr add %s:0:%d::2/64 dev eth0 nodad", pods.v6, number,
			),
			"link set eth0 up",
			fmt.Sprintf("route add default via %s.%d.1", pods.v4, number), fmt.Sprintf(
				"route add default via %s:0:%d::1", pods.v6, number,
			),
		}},
	} {
		if err := IP(at.ns, at.commands...); err != nil {
			return nil, err
		}
	}
	for path, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
		// This is the strictest setting of the reverse path filter.
		"net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/eth0/rp_filter": "1",
	} {
		if err := n.NS.SetSysctl(model.Sysctl{Path: path, Value: value}); err != nil {
			return nil, err
		}
	}
	// These are the rules of a typical CNI plugin for packets that leave the cluster. The policy of the FORWARD
	// chain is DROP.
	var commands []string
	for i, program := range []string{"iptables-", "ip6tables-"} {
		program, pods := program+w.options.Iptables, pods.prefixes()[i].String()
		commands = append(commands,
			program+" -t nat -A POSTROUTING -s "+pods+" ! -d "+pods+" -j MASQUERADE",
			program+" -A FORWARD -s "+pods+" -d "+pods+" -j ACCEPT",
			program+" -P FORWARD DROP")
	}
	// Some CNI plugins masquerade in an nftables table of their own, which no iptables rule can bypass.
	commands = append(commands,
		"nft add table ip cni",
		"nft add chain ip cni postrouting { type nat hook postrouting priority srcnat + 1 ; }",
		fmt.Sprintf("nft add rule ip cni postrouting ip saddr %[1]s ip daddr != %[1]s masquerade", pods.prefixes()[0]))
	for _, c := range commands {
		if _, err := Run(n.NS, c); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Run runs a command in a network namespace, and returns its output.
func Run(ns *kernel.Namespace, command string) (string, error) {
	words := strings.Fields(command)
	cmd := exec.Command(words[0], words[1:]...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := ns.Do(cmd.Run); err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, failure.String())
	}
	return out.String(), nil
}

// IP runs several commands of ip in a network namespace.
func IP(ns *kernel.Namespace, commands ...string) error {
	for _, c := range commands {
		if _, err := Run(ns, "ip "+c); err != nil {
			return err
		}
	}
	return nil
}

// Keys returns a new pair of WireGuard keys.
func Keys() (model.PrivateKey, model.PublicKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return model.PrivateKey{}, model.PublicKey{}, err
	}
	return model.PrivateKey(key.Bytes()), model.PublicKey(key.PublicKey().Bytes()), nil
}
