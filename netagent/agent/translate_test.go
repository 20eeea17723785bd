// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/model"
)

var values = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

func key(n byte) string { return base64.StdEncoding.EncodeToString(append(make([]byte, 31), n)) }

var rome = Cluster{MTU: 1500, Port: 51820}

var ranges = netmap.Ranges{
	Pods:     []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd10::/48")},
	External: []netip.Prefix{prefix("10.70.0.0/16")},
	Services: []netip.Prefix{prefix("10.96.0.0/12")},
	Reserved: []netip.Prefix{prefix("192.168.0.0/16")},
}

func node(name string, created int, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(created), 0)}}
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func milan() *v1alpha1.TunnelEndpoint {
	return &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: "id-of-milan", PublicKey: key(2), MTU: 1400, Endpoints: []string{"172.16.2.1:51820"},
			Local: []v1alpha1.CIDRMapping{
				{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}, {CIDR: "fd10::/48", Mapped: "fd12::/48"},
				{CIDR: "10.70.0.0/16", Mapped: "10.80.0.0/16"},
			},
			Remote: []v1alpha1.CIDRMapping{
				{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}, {CIDR: "fd10::/48", Mapped: "fd11::/48"},
				{CIDR: "10.70.0.0/16", Mapped: "10.71.0.0/16"},
			},
		},
	}
}

func mapping(name, cluster, address, mapped string) *v1alpha1.AddressMapping {
	return &v1alpha1.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.AddressMappingSpec{ClusterID: cluster, Address: address, Mapped: mapped},
	}
}

func objects(endpoints ...*v1alpha1.TunnelEndpoint) Objects {
	return Objects{
		Ranges:          ranges,
		TunnelEndpoints: endpoints,
		Mappings: []*v1alpha1.AddressMapping{
			mapping("api-server", "id-of-milan", "192.168.1.2", "10.70.0.1"),
			mapping("of-another", "id-of-turin", "192.168.1.3", "10.70.0.2"),
			{
				ObjectMeta: metav1.ObjectMeta{Name: "a-range"},
				Spec:       v1alpha1.AddressMappingSpec{ClusterID: "id-of-milan", CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"},
			},
		},
		Nodes:    []*corev1.Node{node("rome-2", 2, "192.168.1.2"), node("rome-1", 1, "192.168.1.1")},
		Gateways: []string{"rome-2", "rome-1"}, Active: "rome-1",
	}
}

func firstEndpoint(te *v1alpha1.TunnelEndpoint) (netip.AddrPort, bool) {
	if len(te.Spec.Endpoints) == 0 {
		return netip.AddrPort{}, false
	}
	return netip.MustParseAddrPort(te.Spec.Endpoints[0]), false
}

func TestObjectsAreTranslatedToModelInput(t *testing.T) {
	o := objects(milan())
	o.Nodes[0].Spec.PodCIDRs = []string{"10.0.2.0/24", "192.168.9.0/24", "fd10:0:0:2::/64", "nonsense"}
	got := Translate("rome-2", rome, o, firstEndpoint)
	want := Translation{
		Input: model.Input{
			Node: "rome-2",
			Nodes: []model.Node{
				{Name: "rome-1", Addresses: []netip.Addr{addr("192.168.1.1")}},
				{
					Name:      "rome-2",
					Addresses: []netip.Addr{addr("192.168.1.2")},
					PodCIDRs:  []netip.Prefix{prefix("10.0.2.0/24"), prefix("fd10:0:0:2::/64")},
				},
			},
			Gateways: []string{"rome-1", "rome-2"}, Active: "rome-1",
			PodCIDRs: ranges.Pods, Virtual: []netip.Prefix{
				prefix("10.96.0.0/12"), prefix("10.70.0.0/16"),
			}, Reserved: ranges.Reserved, MTU: 1500, Port: 51820,
			Peers: []model.Peer{{
				ClusterID: "id-of-milan", PublicKey: model.PublicKey{31: 2}, MTU: 1400,
				Endpoint: netip.MustParseAddrPort("172.16.2.1:51820"),
				Local: []netmap.CIDRMapping{
					{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.2.0.0/16")},
					{CIDR: prefix("fd10::/48"), Mapped: prefix("fd12::/48")},
				},
				Remote:   []netip.Prefix{prefix("10.1.0.0/16"), prefix("fd11::/48"), prefix("10.71.0.0/16")},
				Mappings: []model.Mapping{{Seen: addr("10.80.0.1"), Target: addr("192.168.1.2")}},
			}},
		},
		Names: map[string]string{"id-of-milan": "milan"},
	}
	if diff := cmp.Diff(want, got, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, make := range map[string]func(model.Input) ([]model.Refusal, error){
		"RouteAgent": func(in model.Input) ([]model.Refusal, error) {
			_, refused, err := model.RouteAgent(in)
			return refused, err
		},
		"Gateway": func(in model.Input) ([]model.Refusal, error) {
			in.PrivateKey = model.PrivateKey{1}
			_, _, refused, err := model.Gateway(in)
			return refused, err
		},
	} {
		if refused, err := make(got.Input); err != nil || len(refused) > 0 {
			t.Errorf("%s refuses the input: %v %v", name, refused, err)
		}
	}
}

func TestInvalidTunnelEndpointIsRefusedWithoutAffectingOthers(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*v1alpha1.TunnelEndpointSpec)
		want  string
	}{
		"no key":                  {func(s *v1alpha1.TunnelEndpointSpec) { s.PublicKey = "" }, "32 bytes in base64"},
		"a key that is too short": {func(s *v1alpha1.TunnelEndpointSpec) { s.PublicKey = "AAAA" }, "32 bytes in base64"},
		"invalid base64": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.PublicKey = strings.Repeat("?", 44) }, "32 bytes in base64",
		},
		"an invalid local CIDR": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Local[0].CIDR = "10.0.0.0" }, `"10.0.0.0" must be a CIDR`,
		},
		"an invalid remote CIDR": {func(s *v1alpha1.TunnelEndpointSpec) { s.Remote[0].Mapped = "all" }, `"all" must be a CIDR`},
		"another length": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Remote[0].Mapped = "10.1.0.0/17" }, "same family and length",
		},
		"another family": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Local[0].Mapped = "fd12::/16" }, "same family and length",
		},
		"a local pod range": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Remote[0].Mapped = "10.0.0.0/16" }, "of the local cluster",
		},
		"a local external range": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Remote[0].Mapped = "10.70.0.0/16" }, "of the local cluster",
		},
		"the default route": {func(s *v1alpha1.TunnelEndpointSpec) {
			s.Remote[0] = v1alpha1.CIDRMapping{CIDR: "0.0.0.0/0", Mapped: "0.0.0.0/0"}
		}, "the default route"},
		"loopback": {func(s *v1alpha1.TunnelEndpointSpec) {
			s.Remote[0] = v1alpha1.CIDRMapping{CIDR: "127.0.0.0/16", Mapped: "127.0.0.0/16"}
		}, "no cluster may announce"},
		"bits beyond the prefix": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Remote[0].Mapped = "10.1.0.1/16" }, "bits set beyond",
		},
		"an endpoint of its own pods": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Endpoints[0] = "10.1.0.9:51820" }, "behind the tunnel",
		},
		"a tiny MTU": {func(s *v1alpha1.TunnelEndpointSpec) { s.MTU = 100 }, "MTU 100"},
		"the id of another": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.ClusterID = "id-of-lucca" },
			"TunnelEndpoint lucca is for the same cluster",
		},
		"the key of another": {func(s *v1alpha1.TunnelEndpointSpec) { s.PublicKey = key(3) }, "has its public key"},
		"the range of another": {
			func(s *v1alpha1.TunnelEndpointSpec) { s.Remote[0].Mapped = "10.3.0.0/16" }, "of cluster id-of-lucca",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := milan(), milan()
			good.Name, good.Spec.ClusterID, good.Spec.PublicKey = "lucca", "id-of-lucca", key(3)
			good.Spec.Remote = []v1alpha1.CIDRMapping{{CIDR: "10.3.0.0/16", Mapped: "10.3.0.0/16"}}
			test.spoil(&bad.Spec)
			got := Translate("rome-1", rome, objects(bad, good), firstEndpoint)
			got.Input.PrivateKey, got.Input.Port = model.PrivateKey{1}, 51820
			_, inside, refused, err := model.Gateway(got.Input)
			if err != nil {
				t.Fatal(err)
			}
			got.Refuse(refused)
			if !strings.Contains(got.Refused["milan"], test.want) || len(got.Refused) != 1 {
				t.Errorf("refused: %q", got.Refused)
			}
			if len(inside.Tunnel.Peers) != 1 || inside.Tunnel.Peers[0].PublicKey != (model.PublicKey{31: 3}) {
				t.Errorf("served: %v", inside.Tunnel.Peers)
			}
		})
	}
}

func TestExternalRangeOfAMappingNeedsNoConfiguration(t *testing.T) {
	o := objects(milan())
	o.Ranges.External = nil
	got := Translate("rome-1", rome, o, firstEndpoint)
	if len(got.Refused) > 0 || len(got.LeftOut) > 0 || len(got.Input.Peers) != 1 {
		t.Fatalf("refused: %v, left out: %v", got.Refused, got.LeftOut)
	}
	peer := got.Input.Peers[0]
	if len(peer.Local) != 2 || len(peer.Mappings) != 1 || peer.Mappings[0].Seen != addr("10.80.0.1") {
		t.Errorf("local CIDRs %v, mappings %v", peer.Local, peer.Mappings)
	}
}

func TestEstablishedTunnelKeepsItsRangesWhenPodRangesChange(t *testing.T) {
	o := objects(milan())
	o.Ranges.Pods = []netip.Prefix{prefix("10.50.0.0/16"), prefix("fd10::/48")}
	got := Translate("rome-1", rome, o, firstEndpoint)
	if len(got.Refused) > 0 || len(got.Input.Peers) != 1 || len(got.Input.Peers[0].Local) != 2 ||
		len(got.Input.Peers[0].Mappings) != 1 {
		t.Fatalf("refused: %v, peers: %+v", got.Refused, got.Input.Peers)
	}
	if _, _, refused, err := model.Gateway(withKey(got.Input)); err != nil || len(refused) > 0 {
		t.Errorf("the model refuses %v: %v", refused, err)
	}
}

func withKey(in model.Input) model.Input {
	in.PrivateKey = model.PrivateKey{1}
	return in
}

func TestInvalidMappingIsLeftOutWithoutAffectingItsPeer(t *testing.T) {
	o := objects(milan())
	o.Mappings = append(o.Mappings,
		mapping("outside", "id-of-milan", "192.168.1.2", "10.99.0.1"),
		mapping("nonsense", "id-of-milan", "x.example", "10.70.0.3"),
		mapping("unallocated", "id-of-milan", "192.168.1.2", ""))
	got := Translate("rome-1", rome, o, firstEndpoint)
	if len(got.Input.Peers) != 1 || len(got.Input.Peers[0].Mappings) != 1 {
		t.Fatalf("%+v", got.Input.Peers)
	}
	want := map[string][]string{"milan": {
		`AddressMapping nonsense: "x.example" is not an IP address`,
		"AddressMapping outside: 10.99.0.1 is in none of the external CIDRs agreed upon with the peer",
		`AddressMapping unallocated: "" is not an IP address`,
	}}
	if diff := cmp.Diff(want, got.LeftOut); diff != "" {
		t.Error(diff)
	}
}

func TestMappingsOfMetadataServicesAreLeftOut(t *testing.T) {
	targets := []string{"169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "::ffff:100.100.100.200"}
	for _, p := range netmap.MetadataServices {
		targets = append(targets, p.Addr().String())
	}
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			o := objects(milan())
			o.Mappings = []*v1alpha1.AddressMapping{mapping("metadata", "id-of-milan", target, "10.70.0.7")}
			got := Translate("rome-1", rome, o, firstEndpoint)
			if len(got.Input.Peers) != 1 || len(got.Input.Peers[0].Mappings) > 0 {
				t.Errorf("peers %+v", got.Input.Peers)
			}
			want := map[string][]string{"milan": {
				"AddressMapping metadata: " + target + " is link-local or a metadata service",
			}}
			if diff := cmp.Diff(want, got.LeftOut); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMappingIsRestrictedToItsPorts(t *testing.T) {
	o := objects(milan())
	restricted := mapping("restricted", "id-of-milan", "192.0.2.7", "10.70.0.7")
	restricted.Spec.Ports = []v1alpha1.AddressMappingPort{
		{Protocol: corev1.ProtocolTCP, Port: 443},
		{Protocol: corev1.ProtocolUDP, Port: 53},
	}
	o.Mappings = []*v1alpha1.AddressMapping{restricted}
	want := []model.Mapping{
		{
			Seen:   addr("10.80.0.7"),
			Target: addr("192.0.2.7"),
			Ports:  []model.Port{{Protocol: "tcp", Number: 443}, {Protocol: "udp", Number: 53}},
		},
	}
	if diff := cmp.Diff(want, Translate("rome-1", rome, o, firstEndpoint).Input.Peers[0].Mappings, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnreachableNodeIsLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		node *corev1.Node
		want []string
	}{
		"valid":               {node("rome-3", 3, "192.168.1.3"), []string{"rome-1", "rome-2", "rome-3"}},
		"without an address":  {node("rome-3", 3), []string{"rome-1", "rome-2"}},
		"of the other family": {node("rome-3", 3, "fd00::3"), []string{"rome-1", "rome-2"}},
		"of both, IPv6 first": {
			node("rome-3", 3, "fd00::3", "192.168.1.3"), []string{"rome-1", "rome-2", "rome-3"},
		},
		"with the address of an older":   {node("rome-3", 3, "192.168.1.3", "192.168.1.1"), []string{"rome-1", "rome-2"}},
		"with the address of a younger":  {node("rome-0", 0, "192.168.1.2"), []string{"rome-0", "rome-1"}},
		"with a loopback address":        {node("rome-3", 3, "127.0.0.1"), []string{"rome-1", "rome-2"}},
		"with a host name as an address": {node("rome-3", 3, "rome-3.example"), []string{"rome-1", "rome-2"}},
		"virtual": {func() *corev1.Node {
			n := node("liqo-milan", 3, "192.168.1.3")
			n.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
			return n
		}(), []string{"rome-1", "rome-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects(milan())
			o.Nodes = append(o.Nodes, test.node)
			got := Translate("rome-1", rome, o, firstEndpoint)
			var names []string
			for _, n := range got.Input.Nodes {
				names = append(names, n.Name)
				if !n.Addresses[0].Is4() {
					t.Errorf("overlay address of %s: %s", n.Name, n.Addresses[0])
				}
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Error(diff)
			}
			if _, _, err := model.RouteAgent(got.Input); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestModelAcceptsEveryTranslation(t *testing.T) {
	anyCIDR := rapid.SampledFrom(
		[]string{
			"10.0.0.0/16",
			"10.1.0.0/16",
			"10.70.0.0/16",
			"10.80.0.0/16",
			"fd10::/48",
			"fd11::/48",
			"0.0.0.0/0",
			"10.1.0.1/16",
			"x",
			"",
		},
	)
	anyAddress := rapid.SampledFrom(
		[]string{"192.168.1.1", "192.168.1.7", "fd00::7", "127.0.0.1", "::ffff:192.168.1.9", "x", ""},
	)
	rapid.Check(t, func(t *rapid.T) {
		o := objects(milan())
		ranges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1alpha1.CIDRMapping {
			return v1alpha1.CIDRMapping{CIDR: anyCIDR.Draw(t, "CIDR"), Mapped: anyCIDR.Draw(t, "mapped")}
		}), 0, 3)
		for i := range rapid.IntRange(0, 4).Draw(t, "peers") {
			o.TunnelEndpoints = append(o.TunnelEndpoints, &v1alpha1.TunnelEndpoint{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("peer-%d", i)},
				Spec: v1alpha1.TunnelEndpointSpec{
					ClusterID: rapid.SampledFrom([]string{"", "id-of-milan", "a", "b"}).Draw(t, "cluster"),
					PublicKey: rapid.SampledFrom([]string{"", key(2), key(4), key(5)}).Draw(t, "key"),
					MTU:       int32(rapid.IntRange(-1, 70000).Draw(t, "MTU")),
					Local:     ranges.Draw(t, "local"), Remote: ranges.Draw(t, "remote"),
				},
			})
		}
		// No more nodes than the two of rome are added, so that IPv4 stays the overlay's family.
		for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
			n := node(
				fmt.Sprintf("node-%d", i),
				rapid.IntRange(0, 4).Draw(t, "created"),
				rapid.SliceOfN(anyAddress, 0, 3).Draw(t, "addresses")...)
			n.Spec.PodCIDRs = rapid.SliceOfN(anyCIDR, 0, 2).Draw(t, "pod CIDRs")
			o.Nodes = append(o.Nodes, n)
		}
		// Rome's own nodes are the oldest, so that they keep their addresses.
		o.Nodes[0].CreationTimestamp, o.Nodes[1].CreationTimestamp = metav1.Unix(-1, 0), metav1.Unix(-2, 0)
		for range rapid.IntRange(0, 4).Draw(t, "mappings") {
			o.Mappings = append(o.Mappings, mapping("m", "id-of-milan", anyAddress.Draw(t, "address"),
				rapid.SampledFrom([]string{"10.70.0.9", "10.99.0.1", "", "x"}).Draw(t, "mapped")))
		}
		got := Translate("rome-1", rome, o, firstEndpoint)
		got.Input.PrivateKey, got.Input.Port = model.PrivateKey{1}, 51820
		_, inside, refused, err := model.Gateway(got.Input)
		if err != nil {
			t.Fatal(err)
		}
		got.Refuse(refused)
		if len(inside.Tunnel.Peers)+len(got.Refused) > len(o.TunnelEndpoints) {
			t.Fatalf("%d peers, %d refused, of %d", len(inside.Tunnel.Peers), len(got.Refused), len(o.TunnelEndpoints))
		}
		if got.Refused[""] != "" {
			t.Fatalf("a refusal without a name: %q", got.Refused[""])
		}
		slices.Reverse(o.TunnelEndpoints)
		slices.Reverse(o.Nodes)
		again := Translate("rome-1", rome, o, firstEndpoint)
		again.Input.PrivateKey, again.Input.Port = model.PrivateKey{1}, 51820
		if diff := cmp.Diff(got.Input, again.Input, values); diff != "" {
			t.Fatalf("the order of objects changes the result:\n%s", diff)
		}
	})
}
