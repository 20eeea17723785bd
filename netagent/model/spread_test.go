// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// walk follows a packet through a chain and the chains of its tree. It returns the target of the first matching
// rule that leads out of the tree, empty if no rule matches, and the number of rules compared.
func walk(t rapid.TB, chains []Chain, name string, src, dst netip.Addr) (verdict string, met int) {
	t.Helper()
	for _, c := range chains {
		if c.Name != name {
			continue
		}
		for _, rule := range c.Rules {
			met++
			match, target, _ := strings.Cut(" "+rule, " -j ")
			if !matches(t, match, src, dst) {
				continue
			}
			below := ""
			for _, other := range chains {
				if other.Name == target {
					below = target
				}
			}
			if below == "" {
				return target, met
			}
			verdict, more := walk(t, chains, below, src, dst)
			if met += more; verdict != "" {
				return verdict, met
			}
		}
		return "", met
	}
	t.Fatalf("chain %s does not exist", name)
	return "", 0
}

// matches reports whether a rule matches a packet with the given addresses. The packet comes from a peer, is for
// a pod, and belongs to no known connection.
func matches(t rapid.TB, match string, src, dst netip.Addr) bool {
	t.Helper()
	words := strings.Fields(match)
	for i := 0; i+1 < len(words); i += 2 {
		switch value := words[i+1]; words[i] {
		case "-s", "-d":
			of := map[string]netip.Addr{"-s": src, "-d": dst}[words[i]]
			if !netip.MustParsePrefix(value).Contains(of) {
				return false
			}
		case "-i":
			if value != TunnelLink {
				return false
			}
		case "-o", "-m":
			return false
		default:
			t.Fatalf("a rule matches %s", match)
		}
	}
	return true
}

// disjoint draws disjoint ranges: some isolated, and some in groups of adjacent or distant ranges.
func disjoint(t *rapid.T, f Family) []netip.Prefix {
	var r ranges
	for i := range rapid.IntRange(1, 8).Draw(t, "crowds") {
		bits := rapid.IntRange(8, 128).Draw(t, fmt.Sprintf("length in crowd %d", i))
		from := rapid.Uint64().Draw(t, fmt.Sprintf("crowd %d", i))
		step := rapid.SampledFrom([]uint64{1, 1, 3, 1 << 20}).Draw(t, fmt.Sprintf("step of crowd %d", i))
		for j := range rapid.IntRange(1, 300).Draw(t, fmt.Sprintf("size of crowd %d", i)) {
			p := nth(f, bits, from+uint64(j)*step)
			if _, _, found := r.overlapping(p); !found {
				r.add(p, "")
			}
		}
	}
	return r.prefixes
}

// nth returns the n-th range with a prefix length. For IPv4 the length is at most 32.
func nth(f Family, bits int, n uint64) netip.Prefix {
	var a [16]byte
	if f == IPv4 {
		bits = min(bits, 32)
		binary.BigEndian.PutUint32(a[:4], uint32(n)<<(32-bits))
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(a[:4])), bits)
	}
	if bits <= 64 {
		binary.BigEndian.PutUint64(a[:8], n<<(64-bits))
	} else {
		binary.BigEndian.PutUint64(a[:8], 0xfd<<56)
		binary.BigEndian.PutUint64(a[8:], n<<(128-bits))
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}

func TestTreeDecidesAsOneChainWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]Family{IPv4, IPv6}).Draw(t, "family")
		prefixes := disjoint(t, f)
		var ways []branch
		flat := Chain{Family: f, Name: "LIQO-X"}
		for i, p := range prefixes {
			ways = append(ways, branch{prefix: p, target: fmt.Sprintf("TARGET-%d", i)})
			flat.add("-s %s -j TARGET-%d", p, i)
		}
		root := Chain{Family: f, Name: "LIQO-X"}
		further := root.addTree("-s %s", ways)
		all := append(further, root)
		if len(prefixes) <= maxRules {
			if diff := cmp.Diff([]Chain{flat}, all); diff != "" {
				t.Fatalf("few ranges are not in one chain (-want +got):\n%s", diff)
			}
		}
		for range 20 {
			p := rapid.SampledFrom(prefixes).Draw(t, "range")
			for _, src := range []netip.Addr{p.Addr(), lastOf(p), p.Addr().Prev(), lastOf(p).Next()} {
				if !src.IsValid() {
					continue
				}
				want, _ := walk(t, []Chain{flat}, flat.Name, src, src)
				got, met := walk(t, all, root.Name, src, src)
				if got != want {
					t.Fatalf("packet from %s: %q, want %q", src, got, want)
				}
				// Only IPv6 addresses can need more levels than maxLevels.
				if f == IPv4 && met > maxRules*maxLevels {
					t.Fatalf("a packet from %s was compared with %d rules", src, met)
				}
			}
		}
	})
}

func lastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().AsSlice()
	for i := p.Bits(); i < len(a)*8; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(a)
	return last
}

// many returns an input with peers of consecutive ranges. The first peer has mappings.
func many(peers, mappings int) Input {
	in := rome("rome-1")
	in.Peers = nil
	for i := range peers {
		p := milan()
		p.ClusterID, p.Endpoint = fmt.Sprintf("cluster-%d", i), netip.AddrPort{}
		binary.BigEndian.PutUint32(p.PublicKey[:], uint32(i+1))
		p.Remote = []netip.Prefix{nth(IPv4, 24, 11<<16+uint64(i)), nth(IPv6, 64, 0xfd20<<48+uint64(i))}
		p.Mappings = nil
		if i == 0 {
			for j := range mappings {
				p.Mappings = append(p.Mappings, Mapping{
					Seen: nth(IPv4, 32, 10<<24+80<<16+uint64(j)).Addr(), Target: nth(IPv4, 32, 192<<24+168<<16+uint64(j)).Addr(),
				})
			}
		}
		in.Peers = append(in.Peers, p)
	}
	return in
}

func TestMappingsAreRestrictedToTheirPorts(t *testing.T) {
	in := many(1, 500)
	mappings := in.Peers[0].Mappings
	for i := range mappings {
		for port := range i % (maxPorts + 1) {
			// The order of ports differs from the order of rules.
			mappings[i].Ports = append([]Port{{"tcp", uint16(1000 + port)}}, mappings[i].Ports...)
		}
	}
	mappings[2].Ports = []Port{{"udp", 53}, {"tcp", 53}}
	_, inside, refused, err := Gateway(in)
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	for _, i := range []int{0, 1, 2, maxPorts, maxPorts + 1, 495, 499} {
		to := host(mappings[i].Seen)
		want := []string{fmt.Sprintf("-d %s -j ACCEPT", to)}
		if n := i % (maxPorts + 1); n > 0 {
			want = nil
			for port := range n {
				want = append(want, fmt.Sprintf("-d %s -p tcp -m tcp --dport %d -j ACCEPT", to, 1000+port))
			}
		}
		if i == 2 {
			want = []string{
				fmt.Sprintf("-d %s -p tcp -m tcp --dport 53 -j ACCEPT", to),
				fmt.Sprintf("-d %s -p udp -m udp --dport 53 -j ACCEPT", to),
			}
		}
		got, met := rulesFor(inside.Chains, in.Peers[0].filterName(), to.Addr())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rules about mapping %d (-want +got):\n%s", i, diff)
		}
		if met > 4*maxRules {
			t.Errorf("a packet to mapping %d is compared with %d rules", i, met)
		}
	}
}

// rulesFor returns the rules for an address in a chain and the chains of its tree, and the number of other rules
// that a packet to the address is compared with.
func rulesFor(chains []Chain, name string, address netip.Addr) (rules []string, met int) {
	for _, c := range chains {
		if c.Name != name || c.Family != FamilyOf(address) {
			continue
		}
		for _, rule := range c.Rules {
			met++
			words := strings.Fields(rule)
			if words[0] != "-d" || !netip.MustParsePrefix(words[1]).Contains(address) {
				continue
			}
			if target := words[len(words)-1]; strings.HasPrefix(target, ChainPrefix) {
				below, more := rulesFor(chains, target, address)
				rules, met = append(rules, below...), met+more
			} else if words[1] == host(address).String() {
				rules = append(rules, rule)
			}
		}
	}
	return rules, met
}

func TestPacketsMeetFewRulesWithThousandsOfPeersAndMappings(t *testing.T) {
	in := many(2000, 5000)
	_, inside, refused, err := Gateway(in)
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	node, _, err := RouteAgent(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		state    State
		table    string
		chain    string
		src, dst string
		want     string
	}{
		{inside, mangleTable, preroutingChain, "11.0.0.7", "10.2.3.4", "ACCEPT"},
		{inside, mangleTable, preroutingChain, "11.7.207.7", "10.2.3.4", "ACCEPT"},
		{inside, mangleTable, preroutingChain, "11.0.0.7", "10.80.19.135", "ACCEPT"},
		{inside, mangleTable, preroutingChain, "11.0.0.7", "10.80.19.136", "DROP"},
		{inside, mangleTable, preroutingChain, "11.0.1.7", "10.80.0.1", "DROP"},
		{inside, mangleTable, preroutingChain, "11.7.208.7", "10.2.3.4", "DROP"},
		{inside, mangleTable, preroutingChain, "fd20:0:0:7cf::9", "fd12::1", "ACCEPT"},
		{inside, mangleTable, preroutingChain, "fd20:0:0:7d0::9", "fd12::1", "DROP"},
		{inside, NATTable, preroutingChain, "11.0.0.7", "10.80.19.135", "DNAT --to-destination 192.168.19.135"},
		{inside, NATTable, preroutingChain, "11.7.207.7", "10.2.3.4", "NETMAP --to 10.0.0.0/16"},
		{inside, NATTable, preroutingChain, "11.7.207.7", "10.80.0.1", ""},
		{node, NATTable, postroutingChain, "11.7.207.7", "10.0.2.3", "ACCEPT"},
		{node, NATTable, postroutingChain, "11.7.208.7", "10.0.2.3", ""},
	} {
		f := FamilyOf(netip.MustParseAddr(test.src))
		var chains []Chain
		for _, c := range test.state.Chains {
			if c.Family == f && c.Table == test.table {
				chains = append(chains, c)
			}
		}
		got, met := walk(t, chains, test.chain, netip.MustParseAddr(test.src), netip.MustParseAddr(test.dst))
		if got != test.want {
			t.Errorf("%s %s, from %s to %s: %q, want %q", test.table, test.chain, test.src, test.dst, got, test.want)
		}
		if met > 400 {
			t.Errorf("%s %s, from %s to %s: compared with %d rules", test.table, test.chain, test.src, test.dst, met)
		}
	}
}
