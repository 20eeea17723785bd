// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/netmap"
)

// offloaded returns an input whose only peer may reach some addresses of local pods.
func offloaded(reachable ...netip.Addr) Input {
	in := rome("rome-1")
	in.Peers[0].Offloaded, in.Peers[0].Reachable = true, reachable
	return in
}

// filterRules returns the rules for packets of the only peer of an input, without its chains' names.
func filterRules(t *testing.T, in Input, f Family) string {
	t.Helper()
	_, inside, refused, err := Gateway(in)
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	var b strings.Builder
	for line := range strings.Lines(dump(inside, f)) {
		if rule, ok := strings.CutPrefix(line, mangleTable+" -A "+in.Peers[0].filterName()+" "); ok {
			b.WriteString(rule)
		}
	}
	return b.String()
}

func TestAPeerReachesTheAddressesOfItsReachOnly(t *testing.T) {
	unmapped := func(in *Input) {
		in.Peers[0].Local = []netmap.CIDRMapping{
			{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.0.0.0/16")},
			{CIDR: prefix("fd10::/48"), Mapped: prefix("fd10::/48")},
		}
	}
	for _, test := range []struct {
		name      string
		reachable []string
		change    func(*Input)
		want      map[Family]string
	}{
		{"no pod", nil, nil, map[Family]string{
			IPv4: `-d 10.2.0.0/32 -p udp -m udp --dport 5874 -j ACCEPT
-d 10.80.0.1/32 -j ACCEPT
-j DROP
`,
			IPv6: `-d fd12::/128 -p udp -m udp --dport 5874 -j ACCEPT
-j DROP
`,
		}},
		{"remapped pods in any order", []string{"10.0.2.9", "fd10:0:0:2::9", "10.0.1.8", "10.0.2.9"}, nil, map[Family]string{
			IPv4: `-d 10.2.0.0/32 -p udp -m udp --dport 5874 -j ACCEPT
-d 10.2.1.8/32 -j ACCEPT
-d 10.2.2.9/32 -j ACCEPT
-d 10.80.0.1/32 -j ACCEPT
-j DROP
`,
			IPv6: `-d fd12::/128 -p udp -m udp --dport 5874 -j ACCEPT
-d fd12:0:0:2::9/128 -j ACCEPT
-j DROP
`,
		}},
		{"pods without remapping", []string{"10.0.2.9", "fd10:0:0:2::9"}, unmapped, map[Family]string{
			IPv4: `-d 10.0.0.0/32 -p udp -m udp --dport 5874 -j ACCEPT
-d 10.0.2.9/32 -j ACCEPT
-d 10.80.0.1/32 -j ACCEPT
-j DROP
`,
			IPv6: `-d fd10::/128 -p udp -m udp --dport 5874 -j ACCEPT
-d fd10:0:0:2::9/128 -j ACCEPT
-j DROP
`,
		}},
		{"addresses that are not of pods", []string{"192.168.1.1", "10.2.1.8", "fd12::9", "1.1.1.1"}, nil, map[Family]string{
			IPv4: `-d 10.2.0.0/32 -p udp -m udp --dport 5874 -j ACCEPT
-d 10.80.0.1/32 -j ACCEPT
-j DROP
`,
			IPv6: `-d fd12::/128 -p udp -m udp --dport 5874 -j ACCEPT
-j DROP
`,
		}},
		{"all pods", []string{"10.0.2.9"}, func(in *Input) { in.Peers[0].Offloaded = false }, map[Family]string{
			IPv4: `-d 10.2.0.0/16 -j ACCEPT
-d 10.80.0.1/32 -j ACCEPT
-j DROP
`,
			IPv6: `-d fd12::/48 -j ACCEPT
-j DROP
`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var reachable []netip.Addr
			for _, text := range test.reachable {
				reachable = append(reachable, addr(text))
			}
			in := offloaded(reachable...)
			if test.change != nil {
				test.change(&in)
			}
			got := map[Family]string{IPv4: filterRules(t, in, IPv4), IPv6: filterRules(t, in, IPv6)}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Replies to connections of local pods pass before the reach of the peer is checked, and nothing but the filter of the
// peer depends on its reach.
func TestReachChangesTheFilterOfThePeerOnly(t *testing.T) {
	state := func(in Input) State {
		_, inside, refused, err := Gateway(in)
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		inside.Chains = slices.DeleteFunc(inside.Chains, func(c Chain) bool { return c.Name == in.Peers[0].filterName() })
		return inside
	}
	all, few := state(rome("rome-1")), state(offloaded(addr("10.0.2.9")))
	if diff := cmp.Diff(all, few, values); diff != "" {
		t.Errorf("(-All +Offloaded):\n%s", diff)
	}
	for _, c := range few.Chains {
		const first = "-i liqo.wg -m conntrack --ctstate ESTABLISHED --ctdir REPLY -j ACCEPT"
		if c.Table == mangleTable && c.Name == preroutingChain && c.Rules[0] != first {
			t.Errorf("%s: the first rule is %q", c.Family, c.Rules[0])
		}
	}
	node, _, err := RouteAgent(rome("rome-2"))
	if err != nil {
		t.Fatal(err)
	}
	in := offloaded(addr("10.0.2.9"))
	in.Node = "rome-2"
	other, _, err := RouteAgent(in)
	if diff := cmp.Diff(node, other, values); diff != "" || err != nil {
		t.Errorf("a node: %v (-All +Offloaded):\n%s", err, diff)
	}
}

func TestTooManyReachableAddressesAreRefused(t *testing.T) {
	var many []netip.Addr
	for i := range maxReachable + 1 {
		many = append(many, nth(IPv4, 32, 10<<24+uint64(i)).Addr())
	}
	for count, want := range map[int]int{maxReachable: 0, maxReachable + 1: 1} {
		if _, _, refused, err := Gateway(offloaded(many[:count]...)); len(refused) != want || err != nil {
			t.Errorf("%d addresses: %v, %v", count, refused, err)
		}
	}
}

// A packet from the peer to a remapped address is accepted if and only if the peer may reach the pod, however many
// addresses there are, and it is compared with few rules.
func TestFilterAcceptsExactlyTheReachableAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := func(label string) netip.Addr {
			host := uint64(rapid.IntRange(1, 1<<16-1).Draw(t, label))
			if rapid.Bool().Draw(t, label+" is IPv6") {
				return nth(IPv6, 64, 0xfd10<<48+host).Addr().Next()
			}
			return nth(IPv4, 32, 10<<24+host).Addr()
		}
		var reachable []netip.Addr
		for i := range rapid.IntRange(0, 4).Draw(t, "groups") {
			next := pod(fmt.Sprintf("group %d", i))
			for range rapid.IntRange(1, 200).Draw(t, fmt.Sprintf("size of group %d", i)) {
				reachable, next = append(reachable, next), next.Next()
			}
		}
		in := offloaded(reachable...)
		_, inside, refused, err := Gateway(in)
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		local := netmap.CIDRMappings(in.Peers[0].Local)
		check := func(local, seen netip.Addr, want bool) {
			rules, met := rulesFor(inside.Chains, in.Peers[0].filterName(), seen)
			accepted := slices.Contains(rules, fmt.Sprintf("-d %s -j ACCEPT", host(seen)))
			if accepted != want || len(rules) > 1 || met > 4*maxRules {
				t.Fatalf("pod %s, seen as %s: accepted %t, want %t; %d rules: %q", local, seen, accepted, want, met, rules)
			}
		}
		for i := range 20 {
			a := pod(fmt.Sprintf("packet %d", i))
			if len(reachable) > 0 && i%2 == 0 {
				a = rapid.SampledFrom(reachable).Draw(t, fmt.Sprintf("reachable %d", i))
			}
			for _, a := range []netip.Addr{a, a.Next()} {
				if seen, ok := local.Translate(a); ok {
					check(a, seen, slices.Contains(reachable, a))
				}
			}
		}
		check(netip.Addr{}, in.Peers[0].Mappings[0].Seen, true)
	})
}

// Nothing depends on the order of the addresses.
func TestOrderOfReachableAddressesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var some []netip.Addr
		for i := range rapid.IntRange(0, 200).Draw(t, "count") {
			some = append(some, nth(IPv4, 32, 10<<24+uint64(7*i)).Addr())
		}
		_, sorted, _, err := Gateway(offloaded(some...))
		if err != nil {
			t.Fatal(err)
		}
		_, mixed, _, err := Gateway(offloaded(rapid.Permutation(some).Draw(t, "order")...))
		if diff := cmp.Diff(sorted, mixed, values); diff != "" || err != nil {
			t.Fatalf("%v (-in order +mixed):\n%s", err, diff)
		}
	})
}
