// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/controllers/kit/kittest"
)

// settingsOf returns the settings of a cluster with pods in ranges, and with no external CIDR.
func settingsOf(pods ...string) settings {
	s := settings{Settings: DefaultSettings()}
	s.PodCIDRs, s.ExternalCIDRs, s.Endpoints = pods, []string{NoExternalCIDRs}, []string{"gateway.example.org:51820"}
	return s
}

// peers returns a consumer and its provider with an established peering.
func peers(t tb, rome, milan settings) (consumer, provider *world) {
	t.Helper()
	consumer = newWorld(t, "rome", romeID, "milan", milanID, rome)
	provider = newWorld(t, "milan", milanID, "rome", romeID, milan)
	consumer.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	provider.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	return consumer, provider
}

// expectAgreement fails the test unless the TunnelEndpoints of both clusters exist and match.
func expectAgreement(t tb, one, other *world) {
	t.Helper()
	a, b := one.te(), other.te()
	if a == nil || b == nil {
		t.Fatalf("the tunnels are %v and %v; %v; %v", a, b, one.fc().Status, other.fc().Status)
	}
	if !same(a.Spec.Local, b.Spec.Remote) || !same(a.Spec.Remote, b.Spec.Local) || a.Spec.MTU != b.Spec.MTU {
		t.Fatalf("the clusters do not agree:\n%+v\n%+v", a.Spec, b.Spec)
	}
}

func condition(w *world) metav1.Condition {
	if found := meta.FindStatusCondition(w.fc().Status.Conditions, v1alpha1.ConditionNetworking); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func expectStatus(t tb, w *world, phase v1alpha1.PeeringPhase, reason, message string) {
	t.Helper()
	c := condition(w)
	if w.fc().Status.Networking != phase || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Fatalf("%s reports %s, %s: %s; want %s, %s: …%s…", w.name, w.fc().Status.Networking, c.Reason, c.Message, phase,
			reason, message)
	}
}

func TestTwoClustersAgreeUponATunnel(t *testing.T) {
	for name, test := range map[string]struct {
		rome, milan settings
		want        v1alpha1.TunnelEndpointSpec
	}{
		"disjoint, without any translation": {
			settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"),
			v1alpha1.TunnelEndpointSpec{
				Local:  []v1alpha1.CIDRMapping{{CIDR: "10.1.0.0/16", Mapped: "10.1.0.0/16"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.2.0.0/16", Mapped: "10.2.0.0/16"}},
			},
		},
		"with the same addresses": {
			settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"),
			v1alpha1.TunnelEndpointSpec{
				Local:  []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.255.0.0/16"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.255.0.0/16"}},
			},
		},
		"with the same addresses of both families": {
			settingsOf("10.0.0.0/16", "fd00:10:244::/56"), settingsOf("10.0.0.0/16", "fd00:10:244::/56"),
			v1alpha1.TunnelEndpointSpec{
				Local: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.255.0.0/16"},
					{CIDR: "fd00:10:244::/56", Mapped: "fd6c:6971:ffff:ff00::/56"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.255.0.0/16"},
					{CIDR: "fd00:10:244::/56", Mapped: "fd6c:6971:ffff:ff00::/56"}},
			},
		},
		"with IPv6 ranges alone, where one contains the other": {
			settingsOf("fd00:10::/48"), settingsOf("fd00:10:0:4400::/56"),
			v1alpha1.TunnelEndpointSpec{
				Local:  []v1alpha1.CIDRMapping{{CIDR: "fd00:10::/48", Mapped: "fd6c:6971:ffff::/48"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "fd00:10:0:4400::/56", Mapped: "fd6c:6971:ffff:ff00::/56"}},
			},
		},
		"where one has the Services of the other, and IPv6 as well": {
			func() settings { s := settingsOf("10.1.0.0/16"); s.ServiceCIDRs = []string{"10.96.0.0/12"}; return s }(),
			func() settings {
				s := settingsOf("10.100.0.0/16", "fd00:2::/56")
				s.ExternalCIDRs, s.MTU = []string{"10.200.0.0/24"}, 1380
				return s
			}(),
			v1alpha1.TunnelEndpointSpec{
				MTU:   1380,
				Local: []v1alpha1.CIDRMapping{{CIDR: "10.1.0.0/16", Mapped: "10.1.0.0/16"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.100.0.0/16", Mapped: "10.255.0.0/16"},
					{CIDR: "10.200.0.0/24", Mapped: "10.200.0.0/24"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := peers(t, test.rome, test.milan)
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			expectAgreement(t, rome, milan)
			test.want.ClusterID, test.want.Endpoints, test.want.PublicKey = milanID, []string{"gateway.example.org:51820"},
				publicKeyOf(milan)
			if diff := cmp.Diff(test.want, rome.te().Spec); diff != "" {
				t.Errorf("the tunnel differs (-want +got):\n%s", diff)
			}
			expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "has not reported its state yet")
			rome.gatewayReports(v1alpha1.TunnelConnected, "")
			if writes := rome.pass(); !slices.Equal(writes, []string{"patch status ForeignCluster milan"}) {
				t.Errorf("writes %v", writes)
			}
			expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
			if writes := rome.pass(); len(writes) > 0 {
				t.Errorf("a pass without a change writes %v", writes)
			}
		})
	}
}

// left returns the names of the remaining objects that this package creates for peers.
func left(w *world) []string {
	w.t.Helper()
	var all []string
	for _, o := range kittest.List(w.Cluster, &v1alpha1.NetworkConfigList{}).Items {
		all = append(all, "NetworkConfig "+o.Namespace+"/"+o.Name)
	}
	for _, o := range w.mappings() {
		all = append(all, "AddressMapping "+o.Spec.CIDR)
	}
	for _, o := range kittest.List(w.Cluster, &v1alpha1.TunnelEndpointList{}).Items {
		all = append(all, "TunnelEndpoint "+o.Name)
	}
	return all
}

func TestATunnelThatEndsLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(rome, milan *world){
		"when the consumer disables networking": func(rome, _ *world) {
			rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Networking = v1alpha1.NetworkingNone })
		},
		"when the peering ends": func(rome, milan *world) {
			rome.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
			milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
		},
		"when the provider denies the peering": func(rome, milan *world) {
			rome.peered(v1alpha1.PeeringDenied, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
			milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
		},
		"when the ForeignClusters are deleted": func(rome, milan *world) {
			for _, w := range []*world{rome, milan} {
				w.remove(w.fc())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			if len(left(rome)) != 4 || len(left(milan)) != 4 {
				t.Fatalf("there are %v and %v", left(rome), left(milan))
			}
			end(rome, milan)
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			if rest := left(rome); name != "when the consumer disables networking" && len(rest) > 0 || slices.ContainsFunc(rest,
				func(s string) bool { return !strings.HasPrefix(s, "NetworkConfig liqo-peer-milan/provider") }) {
				t.Errorf("rome keeps %v", rest)
			}
			want := 0
			if name == "when the consumer disables networking" {
				// The NetworkConfig of the provider stays, because its networking is still Tunnel.
				want = 1
				expectStatus(t, milan, v1alpha1.PeeringPending, ReasonAwaitingNetworkConfig, "")
				if c := condition(rome); c.Reason != "" {
					t.Errorf("rome still reports %v", c)
				}
			}
			if rest := left(milan); len(rest) != want {
				t.Errorf("milan keeps %v", rest)
			}
		})
	}
}

func TestTwoPeeringsHaveOneTunnel(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	for _, w := range []*world{rome, milan} {
		w.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	}
	both := func() bool {
		one := replicate(rome, milan)
		return replicate(milan, rome) || one
	}
	settle(t, both, rome, milan)
	expectAgreement(t, rome, milan)
	before := rome.te().Spec
	if n := len(rome.mappings()); n != 1 {
		t.Errorf("there are %d mappings", n)
	}
	rome.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	milan.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	settle(t, both, rome, milan)
	expectAgreement(t, rome, milan)
	if diff := cmp.Diff(before, rome.te().Spec); diff != "" {
		t.Errorf("with one direction it is another tunnel:\n%s", diff)
	}
}

func TestANetworkThatChangesIsAgreedUponAgain(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	before := rome.te()
	milan.Settings.PodCIDRs = []string{"10.0.0.0/16", "10.3.0.0/16"}
	milan.pass()
	if rome.te() == nil || milan.te() == nil || !same(milan.te().Spec.Local, before.Spec.Remote) {
		t.Errorf("the tunnel changes before the other side has answered: %+v", milan.te())
	}
	settle(t, all, rome, milan)
	expectAgreement(t, rome, milan)
	if n := len(rome.te().Spec.Remote); n != 2 {
		t.Errorf("%d ranges are reached", n)
	}
	milan.Settings.PodCIDRs = []string{"10.3.0.0/16"}
	settle(t, all, rome, milan)
	expectAgreement(t, rome, milan)
	if mappings := rome.mappings(); len(mappings) != 1 || mappings[0].Spec.CIDR != "10.3.0.0/16" {
		t.Errorf("the mappings are %v", mappings)
	}
	// When the Secret of the gateway is deleted, the gateway publishes another key.
	key := publicKeyOf(milan)
	milan.newKey()
	settle(t, all, rome, milan)
	if rome.te().Spec.PublicKey == key || rome.te().Spec.PublicKey != publicKeyOf(milan) {
		t.Error("the tunnel has the older key")
	}
}

func TestAPoolOfAnAdministratorIsLeftAlone(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultAddressPool},
		Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"192.168.0.0/16"}, Reserved: []string{"10.0.0.0/8"}}}
	rome.put(pool)
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	if mapped := rome.te().Spec.Remote[0].Mapped; mapped != "192.168.0.0/16" {
		t.Errorf("it is remapped to %s", mapped)
	}
	milan.Settings.ReservedCIDRs = []string{"10.255.0.0/16"}
	milan.pass()
	pools := kittest.List(milan.Cluster, &v1alpha1.AddressPoolList{}).Items
	if len(pools) != 1 || !slices.Contains(pools[0].Spec.Reserved, "10.255.0.0/16") {
		t.Errorf("the pool of the settings is %v", pools)
	}
}

// overlapAny reports whether text overlaps one of the ranges in others.
func overlapAny(others []string, text string) bool {
	return slices.ContainsFunc(prefixes(others), netip.MustParsePrefix(text).Overlaps)
}

// For any ranges of two clusters, their tunnels match, no remapped range overlaps a local range, and another
// reconcile writes nothing.
func TestAnyTwoClustersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(who string) settings {
			s := settingsOf()
			for i := range rapid.IntRange(1, 4).Draw(t, who+" ranges") {
				second := rapid.IntRange(0, 7).Draw(t, fmt.Sprintf("%s %d", who, i))
				if text := fmt.Sprintf("10.%d.0.0/16", second); !slices.Contains(s.PodCIDRs, text) {
					s.PodCIDRs = append(s.PodCIDRs, text)
				}
			}
			for i := range rapid.IntRange(0, 3).Draw(t, who+" IPv6 ranges") {
				third := rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("%s IPv6 %d", who, i))
				if text := netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/%d", third,
					rapid.SampledFrom([]int{48, 56}).Draw(t, who+" bits"))).String(); !overlapAny(s.PodCIDRs, text) {
					s.PodCIDRs = append(s.PodCIDRs, text)
				}
			}
			s.ServiceCIDRs = []string{
				fmt.Sprintf("10.%d.0.0/17", rapid.IntRange(0, 7).Draw(t, who+" Services")),
				fmt.Sprintf("fd00:10:%d:1::/112", rapid.IntRange(1, 4).Draw(t, who+" IPv6 Services")),
			}
			s.MTU = rapid.SampledFrom([]int32{0, 1280, 1420, 9000}).Draw(t, who+" MTU")
			if rapid.Bool().Draw(t, who+" takes external CIDRs") {
				s.ExternalCIDRs = nil
			}
			return s
		}
		rome, milan := peers(t, draw("rome"), draw("milan"))
		all := func() bool { return replicate(rome, milan) }
		settle(t, all, rome, milan)
		expectAgreement(t, rome, milan)
		for _, w := range []*world{rome, milan} {
			for _, mapping := range w.te().Spec.Remote {
				for _, own := range prefixes(w.reserved()) {
					if own.Overlaps(prefixes([]string{mapping.Mapped})[0]) {
						t.Fatalf("%s remaps %s to its own range %s", w.name, mapping.CIDR, mapping.Mapped)
					}
				}
			}
			if writes := w.pass(); len(writes) > 0 {
				t.Fatalf("another pass writes %v", writes)
			}
		}
		rome.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
		milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
		settle(t, all, rome, milan)
		if rest := append(left(rome), left(milan)...); len(rest) > 0 {
			t.Fatalf("%v is left", rest)
		}
	})
}
