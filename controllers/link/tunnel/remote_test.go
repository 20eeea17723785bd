// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestReasonsForRefusalAreReported(t *testing.T) {
	const other = "33333333-3333-4333-8333-333333333333"
	good := v1alpha1.NetworkConfigSpec{ClusterID: milanID, PodCIDRs: []string{"10.2.0.0/16"}, PublicKey: examplePublicKey}
	for name, test := range map[string]struct {
		spec            func(*v1alpha1.NetworkConfigSpec)
		settings        func(*settings)
		reason, message string
	}{
		"a default route": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"0.0.0.0/0"} },
			reason: ReasonNetworkConfigRefused, message: "network.peerCIDRs",
		},
		"loopback": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.ExternalCIDRs = []string{"127.0.0.0/8"} },
			reason: ReasonNetworkConfigRefused, message: "network.peerCIDRs",
		},
		"the internet": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"8.8.8.0/24"} },
			reason: ReasonNetworkConfigRefused, message: "network.peerCIDRs",
		},
		"half of the pool": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"10.128.0.0/9"} },
			reason: ReasonNetworkConfigRefused, message: "10.128.0.0/9, its ranges have more addresses than a /10",
		},
		"half of the pool in pieces": {
			spec: func(s *v1alpha1.NetworkConfigSpec) {
				s.PodCIDRs, s.ExternalCIDRs = []string{"10.64.0.0/10"}, []string{"10.200.0.0/24"}
			},
			reason: ReasonNetworkConfigRefused, message: "a /10",
		},
		"half of the IPv6 pool": {
			spec:     func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = append(s.PodCIDRs, "fd6c:6971:8000::/34") },
			settings: func(s *settings) { s.PodCIDRs = append(s.PodCIDRs, "fd00:1::/56") },
			reason:   ReasonNetworkConfigRefused, message: "a /35",
		},
		"no common family": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"fd00:2::/56"} },
			reason: ReasonNetworkConfigRefused, message: "no IP family in common",
		},
		"another cluster": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.ClusterID = other },
			reason: ReasonNetworkConfigRefused, message: other,
		},
		"another backend": {
			spec:   func(s *v1alpha1.NetworkConfigSpec) { s.Backend = "IPsec" },
			reason: ReasonNetworkConfigRefused, message: "use IPsec, and the tunnels of cluster " + romeID + " use WireGuard",
		},
		"a pool without room": {
			settings: func(s *settings) { s.PoolCIDRs, s.ReservedCIDRs = []string{"10.9.0.0/24"}, []string{"10.2.0.0/24"} },
			reason:   ReasonAddressesExhausted, message: "no free IPv4 range",
		},
		"no local pods": {
			settings: func(s *settings) { s.PodCIDRs = nil },
			reason:   ReasonNotConfigured, message: "network.podCIDRs",
		},
		"an invalid local key": {reason: ReasonKeyInvalid, message: "ConfigMap liqo/federation-gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := settingsOf("10.1.0.0/16")
			if test.settings != nil {
				test.settings(&settings)
			}
			rome, _ := peers(t, settings, settingsOf("10.2.0.0/16"))
			spec := good
			if test.spec != nil {
				test.spec(&spec)
			}
			if test.reason == ReasonKeyInvalid {
				rome.publishKey("x")
			}
			rome.put(ofMilan(spec))
			for range 5 {
				rome.pass()
			}
			expectStatus(t, rome, v1alpha1.PeeringError, test.reason, test.message)
			if rome.te() != nil {
				t.Error("there is a tunnel")
			}
			if rest := rome.mappings(); len(rest) > 0 {
				t.Errorf("it keeps %v", rest)
			}
			if events := rome.Recorded(); len(events) == 0 || !strings.Contains(events[0], test.reason) &&
				!strings.Contains(events[0], "Awaiting") {
				t.Errorf("the events are %q", events)
			}
			answered := kittest.Read(rome.Cluster, naming.PeerNamespace("milan"), v1alpha1.NetworkConfigOfProvider,
				&v1alpha1.NetworkConfig{})
			unread := test.reason == ReasonNotConfigured || test.reason == ReasonKeyInvalid
			if a := accepted(answered); unread != (a == nil) || a != nil &&
				(a.Status != metav1.ConditionFalse || a.Reason != test.reason) {
				t.Errorf("the answer to the peer is %v", a)
			}
		})
	}
}

// A public key belongs to the peer whose tunnel uses it, until that tunnel is deleted.
func TestPublicKeyOfAnotherPeerIsRefused(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	turin := &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "turin"},
		Spec:       v1alpha1.TunnelEndpointSpec{ClusterID: "turin", PublicKey: examplePublicKey},
	}
	rome.put(turin)
	rome.put(ofMilan(v1alpha1.NetworkConfigSpec{
		ClusterID: milanID, PodCIDRs: []string{"10.2.0.0/16"}, PublicKey: examplePublicKey,
	}))
	for range 5 {
		rome.pass()
	}
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonNetworkConfigRefused, "its public key belongs to another cluster")
	if err := rome.Delete(t.Context(), turin); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		rome.pass()
	}
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonAwaitingAnswer, "")
}

// ofMilan returns the NetworkConfig of the provider milan with a spec.
func ofMilan(spec v1alpha1.NetworkConfigSpec) *v1alpha1.NetworkConfig {
	return &v1alpha1.NetworkConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace("milan"),
			Name: v1alpha1.NetworkConfigOfProvider}, Spec: spec,
	}
}

// A peer with the maximum number of addresses, in the maximum number of ranges, leaves enough free ranges for
// other peers.
func TestOnePeerLeavesRangesForTheNext(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	announces := func(id, key string, pods []string) {
		t.Helper()
		rome.put(&v1alpha1.NetworkConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace(rome.peer), Name: v1alpha1.NetworkConfigOfProvider},
			Spec:       v1alpha1.NetworkConfigSpec{ClusterID: id, PodCIDRs: pods, PublicKey: key},
		})
		for range 3 {
			rome.pass()
		}
		mappings := slices.DeleteFunc(rome.mappings(), func(m v1alpha1.AddressMapping) bool { return m.Spec.ClusterID != id })
		if len(mappings) != len(pods) {
			t.Errorf("%s has %d of its %d ranges: %+v", rome.peer, len(mappings), len(pods), rome.fc().Status.Conditions)
		}
	}
	var greedy []string
	for i := range 64 {
		greedy = append(greedy, fmt.Sprintf("10.%d.0.0/16", 4*i+2))
	}
	announces(milanID, examplePublicKey, greedy)

	const genoaID = "33333333-3333-4333-8333-333333333333"
	rome.peer = "genoa"
	rome.put(&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: rome.peer},
		Spec: v1alpha1.ForeignClusterSpec{ClusterID: genoaID}})
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	announces(genoaID, base64.StdEncoding.EncodeToString(append(make([]byte, 31), 2)),
		[]string{"10.1.0.0/16", "10.2.0.0/16", "10.100.0.0/14"})
}

// The peer is both consumer and provider. The limit for one peer applies to both directions together.
func TestBothDirectionsWithAPeerHaveWhatOneMayHave(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	of := func(namespace, name, pods string) *v1alpha1.NetworkConfig {
		return &v1alpha1.NetworkConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.NetworkConfigSpec{ClusterID: milanID, PublicKey: examplePublicKey, PodCIDRs: []string{pods}},
		}
	}
	rome.put(of(naming.PeerNamespace("milan"), v1alpha1.NetworkConfigOfProvider, "10.64.0.0/10"),
		of(naming.TenantNamespace("milan"), v1alpha1.NetworkConfigOfConsumer, "10.128.0.0/10"))
	for range 3 {
		rome.pass()
	}
	if mappings := rome.mappings(); len(mappings) != 1 {
		t.Errorf("it has %d ranges, want 1", len(mappings))
	}
}

func TestDifferingKeysGetNoTunnel(t *testing.T) {
	claimed := func(key string) *v1alpha1.NetworkConfig {
		return &v1alpha1.NetworkConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: naming.TenantNamespace("milan"), Name: v1alpha1.NetworkConfigOfConsumer},
			Spec:       v1alpha1.NetworkConfigSpec{ClusterID: milanID, PodCIDRs: []string{"10.2.0.0/16"}, PublicKey: key},
		}
	}
	otherKey := base64.StdEncoding.EncodeToString(append(make([]byte, 31), 3))
	t.Run("a new tunnel", func(t *testing.T) {
		rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
		rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
		rome.put(claimed(otherKey))
		settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
		expectStatus(t, rome, v1alpha1.PeeringPending, ReasonKeysDiffer, "different public keys")
		if rome.te() != nil {
			t.Error("there is a tunnel")
		}
	})
	t.Run("an existing tunnel", func(t *testing.T) {
		rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
		settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
		before := rome.te().Spec
		rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
		rome.put(claimed(otherKey))
		settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
		expectStatus(t, rome, v1alpha1.PeeringPending, ReasonKeysDiffer, "different public keys")
		if tunnel := rome.te(); tunnel == nil || !same(tunnel.Spec, before) {
			t.Errorf("the tunnel changes from %v to %v", before, tunnel)
		}
		kittest.Change(rome.Cluster, naming.TenantNamespace("milan"), v1alpha1.NetworkConfigOfConsumer,
			&v1alpha1.NetworkConfig{}, func(config *v1alpha1.NetworkConfig) { config.Spec.PublicKey = before.PublicKey })
		settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
		if reason := meta.FindStatusCondition(rome.fc().Status.Conditions, v1alpha1.ConditionNetworking).Reason; reason ==
			ReasonKeysDiffer {
			t.Error("equal keys are reported as different")
		}
	})
}

func TestThePeerMayRefuse(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"),
		func() settings { s := settingsOf("10.2.0.0/16"); s.PeerCIDRs = []string{"192.168.0.0/16"}; return s }())
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectStatus(t, milan, v1alpha1.PeeringError, ReasonNetworkConfigRefused, "10.1.0.0/16")
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonPeerRefuses, "10.1.0.0/16")
}

func TestAnIncompleteAnswerIsNone(t *testing.T) {
	spec := v1alpha1.NetworkConfigSpec{PodCIDRs: []string{"10.1.0.0/16"}, ExternalCIDRs: []string{"10.70.0.0/16"}}
	one, two := v1alpha1.CIDRMapping{CIDR: "10.1.0.0/16", Mapped: "10.9.0.0/16"},
		v1alpha1.CIDRMapping{CIDR: "10.70.0.0/16", Mapped: "10.10.0.0/16"}
	if list := complete(spec, []v1alpha1.CIDRMapping{two, one}); !same(list, []v1alpha1.CIDRMapping{one, two}) {
		t.Errorf("the answer is read as %v", list)
	}
	for name, answer := range map[string][]v1alpha1.CIDRMapping{"nothing": nil, "half": {one}} {
		if list := complete(spec, answer); list != nil {
			t.Errorf("%s is read as %v", name, list)
		}
	}
}
