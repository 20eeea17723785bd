// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/netagent/model"
)

// settingsOf are those of a cluster with these pods, and with no external CIDR.
func settingsOf(pods ...string) settings {
	s := settings{Settings: DefaultSettings()}
	s.PodCIDRs, s.ExternalCIDRs, s.Endpoints = pods, []string{NoExternalCIDRs}, []string{"gateway.example.org:51820"}
	return s
}

// peers are a consumer and its provider.
func peers(t tb, rome, milan settings) (consumer, provider *world) {
	t.Helper()
	consumer = newWorld(t, "rome", romeID, "milan", milanID, rome)
	provider = newWorld(t, "milan", milanID, "rome", romeID, milan)
	consumer.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	provider.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	return consumer, provider
}

// expectAgreement tells whether both ends of a tunnel say the same.
func expectAgreement(t tb, one, other *world) {
	t.Helper()
	a, b := one.te(), other.te()
	if a == nil || b == nil {
		t.Fatalf("the tunnels are %v and %v; %v; %v", a, b, one.fc().Status, other.fc().Status)
	}
	if !same(a.Spec.Local, b.Spec.Remote) || !same(a.Spec.Remote, b.Spec.Local) || a.Spec.MTU != b.Spec.MTU {
		t.Fatalf("the clusters do not mean the same:\n%+v\n%+v", a.Spec, b.Spec)
	}
}

func condition(w *world) metav1.Condition {
	if found := meta.FindStatusCondition(w.fc().Status.Conditions, v1alpha1.ConditionNetworking); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func expectStatus(t tb, w *world, phase v1alpha1.PeeringPhase, reason, says string) {
	t.Helper()
	c := condition(w)
	if w.fc().Status.Networking != phase || c.Reason != reason || !strings.Contains(c.Message, says) {
		t.Fatalf("%s says %s, %s: %s; want %s, %s: …%s…", w.name, w.fc().Status.Networking, c.Reason, c.Message, phase, reason, says)
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
				Local:  []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.255.0.0/16"}, {CIDR: "fd00:10:244::/56", Mapped: "fd6c:6971:ffff:ff00::/56"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.255.0.0/16"}, {CIDR: "fd00:10:244::/56", Mapped: "fd6c:6971:ffff:ff00::/56"}},
			},
		},
		"with IPv6 alone, of which one has a part of the other": {
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
				MTU:    1380,
				Local:  []v1alpha1.CIDRMapping{{CIDR: "10.1.0.0/16", Mapped: "10.1.0.0/16"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.100.0.0/16", Mapped: "10.255.0.0/16"}, {CIDR: "10.200.0.0/24", Mapped: "10.200.0.0/24"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := peers(t, test.rome, test.milan)
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			expectAgreement(t, rome, milan)
			test.want.ClusterID, test.want.Endpoints, test.want.PublicKey = milanID, []string{"gateway.example.org:51820"}, publicKeyOf(t, milan)
			if diff := cmp.Diff(test.want, rome.te().Spec); diff != "" {
				t.Errorf("the tunnel differs (-want +got):\n%s", diff)
			}
			expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "said nothing")
			rome.says(v1alpha1.TunnelConnected, "")
			if writes := rome.pass(); !slices.Equal(writes, []string{"patch foreignclusters"}) {
				t.Errorf("writes %v", writes)
			}
			expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
			if writes := rome.pass(); len(writes) > 0 {
				t.Errorf("with nothing to do it writes %v", writes)
			}
		})
	}
}

// publicKeyOf checks the pair of keys that a cluster made.
func TestTheKeysAreThereBeforeAnybodyPeers(t *testing.T) {
	w := newWorld(t, "rome", romeID, "milan", milanID, settingsOf("10.0.0.0/16"))
	for range 2 {
		w.refresh()
		if _, err := w.reconcile(w.ctx(), ownKeys); err != nil {
			t.Fatal(err)
		}
	}
	publicKeyOf(t, w)
	if keys := w.all(nil); len(keys) != 2 || keys[0] != ownKeys {
		t.Errorf("when the Secret is deleted, %v are reconciled", keys)
	}
}

func publicKeyOf(t *testing.T, w *world) string {
	t.Helper()
	secret, err := w.kube.CoreV1().Secrets(installation).Get(t.Context(), v1alpha1.WireGuardSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := base64.StdEncoding.DecodeString(string(secret.Data[v1alpha1.WireGuardPrivateKey]))
	if err != nil {
		t.Fatal(err)
	}
	private, err := ecdh.X25519().NewPrivateKey(bytes)
	if err != nil {
		t.Fatal(err)
	}
	public := string(secret.Data[v1alpha1.WireGuardPublicKey])
	if want := base64.StdEncoding.EncodeToString(private.PublicKey().Bytes()); public != want {
		t.Fatalf("the public key is %s and not %s", public, want)
	}
	return public
}

// says is what the gateway says of the tunnel.
func (w *world) says(phase v1alpha1.TunnelPhase, message string) {
	w.t.Helper()
	endpoint := w.te()
	endpoint.Status.Phase, endpoint.Status.ObservedGeneration = phase, endpoint.Generation
	status := metav1.ConditionFalse
	if phase == v1alpha1.TunnelConnected {
		status = metav1.ConditionTrue
	}
	endpoint.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: status, Reason: "Test", Message: message, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	w.do(w.federation.FederationV1alpha1().TunnelEndpoints(installation).Update(w.ctx(), endpoint, metav1.UpdateOptions{}))
}

// uses has the gateway say which key it uses.
func (w *world) uses(key string) {
	w.t.Helper()
	endpoint := w.te()
	endpoint.Status.PublicKey = key
	w.do(w.federation.FederationV1alpha1().TunnelEndpoints(installation).Update(w.ctx(), endpoint, metav1.UpdateOptions{}))
}

func TestWhatTheGatewaySaysIsTold(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	rome.says(v1alpha1.TunnelConnecting, "no handshake\x1b[2J")
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "no handshake[2J")
	rome.says(v1alpha1.TunnelConnected, "")
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
	rome.says(v1alpha1.TunnelConnecting, "the gateway moves")
	rome.pass()
	if expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnecting, "moves"); rome.after != patience {
		t.Errorf("it is looked at again after %v", rome.after)
	}
	rome.clock.SetTime(rome.clock.Now().Add(patience))
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "moves")
	rome.says(v1alpha1.TunnelError, "10.2.0.0/16 overlaps a node")
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonTunnelFailing, "overlaps a node")
}

// left are the objects that there are of what this package makes.
func left(w *world) []string {
	w.t.Helper()
	var all []string
	api := w.federation.FederationV1alpha1()
	for _, o := range got(w, api.NetworkConfigs("").List).Items {
		all = append(all, "NetworkConfig "+o.Namespace+"/"+o.Name)
	}
	for _, o := range got(w, api.AddressMappings("").List).Items {
		all = append(all, "AddressMapping "+o.Spec.CIDR)
	}
	for _, o := range got(w, api.TunnelEndpoints("").List).Items {
		all = append(all, "TunnelEndpoint "+o.Name)
	}
	return all
}

func TestATunnelEndsAndLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(rome, milan *world){
		"when the consumer wants none": func(rome, _ *world) {
			fc := rome.fc()
			fc.Spec.Networking = v1alpha1.NetworkingNone
			rome.do(rome.federation.FederationV1alpha1().ForeignClusters().Update(rome.ctx(), fc, metav1.UpdateOptions{}))
		},
		"when the peering ends": func(rome, milan *world) {
			rome.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
			milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
		},
		"when the provider denies": func(rome, milan *world) {
			rome.peered(v1alpha1.PeeringDenied, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
			milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
		},
		"when the clusters are forgotten": func(rome, milan *world) {
			for _, w := range []*world{rome, milan} {
				w.do(nil, w.federation.FederationV1alpha1().ForeignClusters().Delete(w.ctx(), w.peer, metav1.DeleteOptions{}))
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
			if rest := left(rome); name != "when the consumer wants none" && len(rest) > 0 || slices.ContainsFunc(rest, func(s string) bool { return !strings.HasPrefix(s, "NetworkConfig liqo-peer-milan/provider") }) {
				t.Errorf("rome keeps %v", rest)
			}
			want := 0
			if name == "when the consumer wants none" {
				// It still offers a tunnel.
				want = 1
				expectStatus(t, milan, v1alpha1.PeeringPending, ReasonAwaitingNetworkConfig, "")
				if c := condition(rome); c.Reason != "" {
					t.Errorf("rome still says %v", c)
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
	if n := len(got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items); n != 1 {
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

func TestANetworkThatChangesIsAgreedUponAnew(t *testing.T) {
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
	if mappings := got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items; len(mappings) != 1 || mappings[0].Spec.CIDR != "10.3.0.0/16" {
		t.Errorf("the mappings are %v", mappings)
	}
	// Another pair of keys, as when the Secret was deleted.
	key := publicKeyOf(t, milan)
	milan.do(nil, milan.kube.CoreV1().Secrets(installation).Delete(t.Context(), v1alpha1.WireGuardSecret, metav1.DeleteOptions{}))
	settle(t, all, rome, milan)
	if rome.te().Spec.PublicKey == key || rome.te().Spec.PublicKey != publicKeyOf(t, milan) {
		t.Error("the tunnel has the older key")
	}
}

func TestANewKeyIsToldWhenTheGatewayUsesIt(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	older := publicKeyOf(t, milan)
	milan.uses(older)
	settle(t, all, rome, milan)
	milan.do(nil, milan.kube.CoreV1().Secrets(installation).Delete(t.Context(), v1alpha1.WireGuardSecret, metav1.DeleteOptions{}))
	settle(t, all, rome, milan)
	newer := publicKeyOf(t, milan)
	if newer == older || rome.te().Spec.PublicKey != older {
		t.Errorf("the gateway uses %s, and the other cluster calls %s", older, rome.te().Spec.PublicKey)
	}
	milan.uses(newer)
	settle(t, all, rome, milan)
	if rome.te().Spec.PublicKey != newer {
		t.Errorf("the gateway uses %s, and the other cluster calls %s", newer, rome.te().Spec.PublicKey)
	}
	expectAgreement(t, rome, milan)
}

// measures has the gateway say how large packets its node's network takes.
func (w *world) measures(mtu int32) {
	w.t.Helper()
	endpoint := w.te()
	endpoint.Status.MTU = mtu
	w.do(w.federation.FederationV1alpha1().TunnelEndpoints(installation).Update(w.ctx(), endpoint, metav1.UpdateOptions{}))
}

func TestWhatTheGatewaysMeasureIsAgreedUpon(t *testing.T) {
	small := settingsOf("10.1.0.0/16")
	small.MTU = 1380
	for name, test := range map[string]struct {
		rome        settings
		here, there int32
		want        int32
	}{
		"the lower one":                     {settingsOf("10.1.0.0/16"), 8921, 1420, 1420},
		"also where it is the own one":      {settingsOf("10.1.0.0/16"), 1370, 1420, 1370},
		"or the only one":                   {settingsOf("10.1.0.0/16"), 0, 1420, 1420},
		"or what an administrator has said": {small, 8921, 1420, 1380},
		"not where a gateway finds less":    {small, 1300, 1420, 1300},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := peers(t, test.rome, settingsOf("10.2.0.0/16"))
			all := func() bool { return replicate(rome, milan) }
			settle(t, all, rome, milan)
			rome.measures(test.here)
			milan.measures(test.there)
			settle(t, all, rome, milan)
			expectAgreement(t, rome, milan)
			if mtu := rome.te().Spec.MTU; mtu != test.want {
				t.Errorf("%d is agreed upon, not %d", mtu, test.want)
			}
		})
	}
}

func TestAnotherMTUIsToldOnce(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	rome.measures(8921)
	settle(t, all, rome, milan)
	rome.measures(1420)
	if writes := rome.pass(); !slices.Equal(writes, []string{"patch networkconfigs", "patch tunnelendpoints"}) {
		t.Errorf("it writes %v", writes)
	}
	settle(t, all, rome, milan)
	expectAgreement(t, rome, milan)
	config, err := rome.federation.FederationV1alpha1().NetworkConfigs(naming.PeerNamespace("milan")).Get(t.Context(), v1alpha1.NetworkConfigOfConsumer, metav1.GetOptions{})
	if rome.do(nil, err); config.Spec.MTU != 1420 {
		t.Errorf("%d bytes are told", config.Spec.MTU)
	}
	// What is agreed upon, and what passes, is no reason to tell another.
	generation := config.Generation
	endpoint := rome.te()
	endpoint.Status.PathMTU = 1300
	rome.do(rome.federation.FederationV1alpha1().TunnelEndpoints(installation).Update(t.Context(), endpoint, metav1.UpdateOptions{}))
	if writes := rome.pass(); len(writes) > 0 {
		t.Errorf("for a narrow way it writes %v", writes)
	}
	if config, err = rome.federation.FederationV1alpha1().NetworkConfigs(config.Namespace).Get(t.Context(), config.Name, metav1.GetOptions{}); err != nil || config.Generation != generation {
		t.Errorf("it is told again: %v %v", config, err)
	}
}

func TestWhatIsKnownOfAnotherTunnelHoldsForANewOne(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	rome.do(rome.federation.FederationV1alpha1().TunnelEndpoints(installation).Create(t.Context(), &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: "naples", Namespace: installation}, Status: v1alpha1.TunnelEndpointStatus{MTU: 1420},
	}, createOptions))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectAgreement(t, rome, milan)
	if mtu := milan.te().Spec.MTU; mtu != 1420 {
		t.Errorf("%d is agreed upon", mtu)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	const other = "33333333-3333-4333-8333-333333333333"
	good := v1alpha1.NetworkConfigSpec{ClusterID: milanID, PodCIDRs: []string{"10.2.0.0/16"}, PublicKey: somePublicKey}
	for name, test := range map[string]struct {
		spec         func(*v1alpha1.NetworkConfigSpec)
		settings     func(*settings)
		phase        v1alpha1.PeeringPhase
		reason, says string
	}{
		"a default route":  {spec: func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"0.0.0.0/0"} }, reason: ReasonNetworkConfigRefused, says: "must not be larger"},
		"loopback":         {spec: func(s *v1alpha1.NetworkConfigSpec) { s.ExternalCIDRs = []string{"127.0.0.0/8"} }, reason: ReasonNetworkConfigRefused, says: "loopback"},
		"the internet":     {spec: func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"8.8.8.0/24"} }, reason: ReasonNetworkConfigRefused, says: "network.peerCIDRs"},
		"half of the pool": {spec: func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"10.128.0.0/9"} }, reason: ReasonNetworkConfigRefused, says: "10.128.0.0/9 its ranges have more addresses than a /10"},
		"half of it in pieces": {spec: func(s *v1alpha1.NetworkConfigSpec) {
			s.PodCIDRs, s.ExternalCIDRs = []string{"10.64.0.0/10"}, []string{"10.200.0.0/24"}
		}, reason: ReasonNetworkConfigRefused, says: "a /10"},
		"half of IPv6":           {spec: func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = append(s.PodCIDRs, "fd6c:6971:8000::/34") }, settings: func(s *settings) { s.PodCIDRs = append(s.PodCIDRs, "fd00:1::/56") }, reason: ReasonNetworkConfigRefused, says: "a /35"},
		"no family of ours":      {spec: func(s *v1alpha1.NetworkConfigSpec) { s.PodCIDRs = []string{"fd00:2::/56"} }, reason: ReasonNetworkConfigRefused, says: "no addresses of a family"},
		"another cluster":        {spec: func(s *v1alpha1.NetworkConfigSpec) { s.ClusterID = other }, reason: ReasonNetworkConfigRefused, says: other},
		"a bad key":              {spec: func(s *v1alpha1.NetworkConfigSpec) { s.PublicKey = "key" }, reason: ReasonNetworkConfigRefused, says: "spec.publicKey"},
		"another backend":        {spec: func(s *v1alpha1.NetworkConfigSpec) { s.Backend = "IPsec" }, reason: ReasonNetworkConfigRefused, says: "made with IPsec, and those of cluster " + romeID + " with WireGuard"},
		"no backend's name":      {spec: func(s *v1alpha1.NetworkConfigSpec) { s.Backend = "IP sec" }, reason: ReasonNetworkConfigRefused, says: "spec.backend"},
		"a hostile endpoint":     {spec: func(s *v1alpha1.NetworkConfigSpec) { s.Endpoints = []string{"127.0.0.1:6443"} }, reason: ReasonNetworkConfigRefused, says: "loopback"},
		"a pool without room":    {settings: func(s *settings) { s.PoolCIDRs, s.ReservedCIDRs = []string{"10.9.0.0/24"}, []string{"10.2.0.0/24"} }, reason: ReasonAddressesExhausted, says: "no free IPv4 range"},
		"no pods of ours":        {settings: func(s *settings) { s.PodCIDRs = nil }, reason: ReasonNotConfigured, says: "network.podCIDRs"},
		"an own key that is bad": {settings: nil, reason: ReasonKeyInvalid, says: "Secret liqo/liqo-wireguard"},
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
				rome.do(rome.kube.CoreV1().Secrets(installation).Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.WireGuardSecret, Namespace: installation}, Data: map[string][]byte{"publicKey": []byte("x")},
				}, createOptions))
			}
			// The mirror is what a stranger wrote, whatever our API server says of it.
			mirror := &v1alpha1.NetworkConfig{ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace("milan"), Name: v1alpha1.NetworkConfigOfProvider}, Spec: spec}
			rome.do(rome.federation.FederationV1alpha1().NetworkConfigs(mirror.Namespace).Create(t.Context(), mirror, createOptions))
			for range 5 {
				rome.pass()
			}
			expectStatus(t, rome, v1alpha1.PeeringError, test.reason, test.says)
			if rome.te() != nil {
				t.Error("there is a tunnel")
			}
			if rest := got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items; len(rest) > 0 {
				t.Errorf("it keeps %v", rest)
			}
			select {
			case event := <-rome.events.Events:
				if !strings.Contains(event, test.reason) && !strings.Contains(event, "Awaiting") {
					t.Errorf("the event is %q", event)
				}
			default:
				t.Error("there is no event")
			}
			answered, err := rome.federation.FederationV1alpha1().NetworkConfigs(mirror.Namespace).Get(t.Context(), mirror.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ours := test.reason == ReasonNotConfigured || test.reason == ReasonKeyInvalid
			if a := accepted(answered); ours != (a == nil) || a != nil && (a.Status != metav1.ConditionFalse || a.Reason != test.reason) {
				t.Errorf("the other side is told %v", a)
			}
		})
	}
}

// Whoever said that the tunnel is connected may be dead since.
func TestATunnelThatNobodyTellsOfIsNotConnected(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	rome.leases = coordinationlisters.NewLeaseLister(indexed(rome, func() []coordinationv1.Lease {
		return got(rome, rome.kube.CoordinationV1().Leases("").List).Items
	})).Leases(installation)
	var again []cache.ObjectName
	rome.again = func(key cache.ObjectName) { again = append(again, key) }
	renew := func(version string) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName, ResourceVersion: version}}
		kind := coordinationv1.SchemeGroupVersion.WithResource("leases")
		err := rome.kube.Tracker().Update(kind, lease, installation)
		if apierrors.IsNotFound(err) {
			err = rome.kube.Tracker().Create(kind, lease, installation)
		}
		rome.do(nil, err)
	}
	// look tells after how long it is looked at again, and whether every tunnel is.
	look := func(after time.Duration, want time.Duration, all bool) {
		t.Helper()
		rome.clock.SetTime(rome.clock.Now().Add(after))
		again = nil
		left, err := rome.reconcile(t.Context(), gatewayLease)
		if err != nil || left != want || (len(again) > 0) != all {
			t.Errorf("after %s, it is looked at again after %s, and not %s, and %v as well: %v", after, left, want, again, err)
		}
		rome.pass()
	}
	te := rome.te()
	te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, ObservedGeneration: te.Generation, LatencyMicroseconds: 4200}
	rome.do(rome.federation.FederationV1alpha1().TunnelEndpoints(installation).UpdateStatus(t.Context(), te, metav1.UpdateOptions{}))
	rome.refresh()
	latency := func(want int64) {
		t.Helper()
		if got := rome.fc().Status.LatencyMicroseconds; got != want {
			t.Errorf("the latency is %d µs, and not %d", got, want)
		}
	}
	look(time.Hour, leasePatience, false)
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")

	renew("7")
	rome.refresh()
	look(time.Second, leasePatience, false)
	renew("8") // the cache is late
	look(leasePatience, leasePatience, false)
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
	latency(4200)
	look(leasePatience, 0, true)
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonGatewaySilent, "Lease liqo-gateway")
	latency(0)
	renew("9")
	rome.refresh()
	look(time.Second, leasePatience, true)
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
}

// The first of two ranges can be had and the second one cannot. What comes and
// goes with an attempt is no reason for the next one.
func TestAnAttemptInVainIsNotMadeAgainAtOnce(t *testing.T) {
	settings := settingsOf("10.1.0.0/16")
	settings.PoolCIDRs, settings.ReservedCIDRs = []string{"10.9.0.0/24"}, []string{"10.3.0.0/24"}
	rome, _ := peers(t, settings, settingsOf("10.2.0.0/16"))
	configs := rome.federation.FederationV1alpha1().NetworkConfigs(naming.PeerNamespace("milan"))
	mirror := &v1alpha1.NetworkConfig{ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace("milan"), Name: v1alpha1.NetworkConfigOfProvider}}
	mirror.Spec = v1alpha1.NetworkConfigSpec{ClusterID: milanID, PodCIDRs: []string{"10.2.0.0/16", "10.3.0.0/16"}, PublicKey: somePublicKey}
	rome.do(configs.Create(t.Context(), mirror, createOptions))
	attempts := func() int {
		if slices.Contains(rome.pass(), "create addressmappings") {
			return 1
		}
		return 0
	}
	none := func() {
		t.Helper()
		if rest := got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items; len(rest) > 0 {
			t.Errorf("it keeps %v", rest)
		}
	}
	made := 0
	for range 10 {
		made += attempts()
	}
	if made != 1 {
		t.Errorf("%d attempts were made", made)
	}
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonAddressesExhausted, "no free IPv4 range")
	if rome.after <= 0 || rome.after > exhaustedRetry {
		t.Errorf("it looks again after %s", rome.after)
	}
	none()
	rome.clock.SetTime(rome.clock.Now().Add(exhaustedRetry))
	if made = attempts() + attempts(); made != 1 {
		t.Errorf("%d attempts were made in the next minute", made)
	}
	none()
	// The other cluster has fewer ranges now.
	rome.refresh()
	found, err := configs.Get(t.Context(), mirror.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found.Spec.PodCIDRs = found.Spec.PodCIDRs[:1]
	rome.do(configs.Update(t.Context(), found, metav1.UpdateOptions{}))
	if made = attempts() + attempts(); made != 1 {
		t.Errorf("%d attempts were made when the ranges were others", made)
	}
	if rest := got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items; len(rest) != 1 {
		t.Errorf("there are %d mappings", len(rest))
	}
}

// One peer has as much as it may, in as many pieces as it may, and of the other ones
// each gets what it needs.
func TestOnePeerLeavesRangesForTheNext(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	announces := func(id, key string, pods []string) {
		t.Helper()
		mirror := &v1alpha1.NetworkConfig{ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace(rome.peer), Name: v1alpha1.NetworkConfigOfProvider}}
		mirror.Spec = v1alpha1.NetworkConfigSpec{ClusterID: id, PodCIDRs: pods, PublicKey: key}
		rome.do(rome.federation.FederationV1alpha1().NetworkConfigs(mirror.Namespace).Create(t.Context(), mirror, createOptions))
		for range 3 {
			rome.pass()
		}
		mappings := slices.DeleteFunc(got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items, func(m v1alpha1.AddressMapping) bool { return m.Spec.ClusterID != id })
		if len(mappings) != len(pods) {
			t.Errorf("%s has %d of its %d ranges: %+v", rome.peer, len(mappings), len(pods), rome.fc().Status.Conditions)
		}
	}
	var greedy []string
	for i := range 64 {
		greedy = append(greedy, fmt.Sprintf("10.%d.0.0/16", 4*i+2))
	}
	announces(milanID, somePublicKey, greedy)

	const genoaID = "33333333-3333-4333-8333-333333333333"
	rome.peer = "genoa"
	rome.do(rome.federation.FederationV1alpha1().ForeignClusters().Create(t.Context(), &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: rome.peer}, Spec: v1alpha1.ForeignClusterSpec{ClusterID: genoaID},
	}, createOptions))
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	announces(genoaID, base64.StdEncoding.EncodeToString(append(make([]byte, 31), 2)), []string{"10.1.0.0/16", "10.2.0.0/16", "10.100.0.0/14"})
}

// Consumer and provider are one cluster, and have what one may have.
func TestBothDirectionsWithAPeerHaveWhatOneMayHave(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	for namespace, mirror := range map[string]v1alpha1.NetworkConfig{
		naming.PeerNamespace("milan"):   {ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NetworkConfigOfProvider}, Spec: v1alpha1.NetworkConfigSpec{PodCIDRs: []string{"10.64.0.0/10"}}},
		naming.TenantNamespace("milan"): {ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NetworkConfigOfConsumer}, Spec: v1alpha1.NetworkConfigSpec{PodCIDRs: []string{"10.128.0.0/10"}}},
	} {
		mirror.Namespace, mirror.Spec.ClusterID, mirror.Spec.PublicKey = namespace, milanID, somePublicKey
		rome.do(rome.federation.FederationV1alpha1().NetworkConfigs(namespace).Create(t.Context(), &mirror, createOptions))
	}
	for range 3 {
		rome.pass()
	}
	if mappings := got(rome, rome.federation.FederationV1alpha1().AddressMappings("").List).Items; len(mappings) != 1 {
		t.Errorf("it has %d ranges", len(mappings))
	}
}

func TestTheOtherSideMayRefuse(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), func() settings { s := settingsOf("10.2.0.0/16"); s.PeerCIDRs = []string{"192.168.0.0/16"}; return s }())
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectStatus(t, milan, v1alpha1.PeeringError, ReasonNetworkConfigRefused, "10.1.0.0/16")
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonPeerRefuses, "10.1.0.0/16")
}

func TestAHalfAnswerIsNone(t *testing.T) {
	spec := v1alpha1.NetworkConfigSpec{PodCIDRs: []string{"10.1.0.0/16"}, ExternalCIDRs: []string{"10.70.0.0/16"}}
	one, two := v1alpha1.CIDRMapping{CIDR: "10.1.0.0/16", Mapped: "10.9.0.0/16"}, v1alpha1.CIDRMapping{CIDR: "10.70.0.0/16", Mapped: "10.10.0.0/16"}
	if list := complete(spec, []v1alpha1.CIDRMapping{two, one}); !same(list, []v1alpha1.CIDRMapping{one, two}) {
		t.Errorf("the answer is read as %v", list)
	}
	for name, said := range map[string][]v1alpha1.CIDRMapping{
		"nothing": nil, "half": {one},
		"one name for two": {one, {CIDR: "10.70.0.0/16", Mapped: "10.9.0.0/16"}},
		"a default route":  {one, {CIDR: "10.70.0.0/16", Mapped: "0.0.0.0/0"}},
		"another size":     {one, {CIDR: "10.70.0.0/16", Mapped: "10.10.0.0/17"}},
	} {
		if list := complete(spec, said); list != nil {
			t.Errorf("%s is read as %v", name, list)
		}
	}
}

func TestNobodyIsAskedWithoutATunnel(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	for _, mode := range []v1alpha1.NetworkingMode{v1alpha1.NetworkingNone, v1alpha1.NetworkingFlat} {
		rome.Networking = mode
		if writes := rome.pass(); len(writes) > 0 {
			t.Errorf("with %s it writes %v", mode, writes)
		}
	}
	rome.Networking = v1alpha1.NetworkingTunnel
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone)
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonPeerTooOld, "upgrade")
	rome.peered(v1alpha1.PeeringPending, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonAwaitingPeering, "")
	if rest := left(rome); len(rest) > 0 {
		t.Errorf("there are %v", rest)
	}
}

func TestAPoolOfAnAdministratorIsLeftAlone(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultAddressPool}, Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"192.168.0.0/16"}, Reserved: []string{"10.0.0.0/8"}}}
	rome.do(rome.federation.FederationV1alpha1().AddressPools().Create(t.Context(), pool, createOptions))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	if mapped := rome.te().Spec.Remote[0].Mapped; mapped != "192.168.0.0/16" {
		t.Errorf("it is mapped to %s", mapped)
	}
	milan.Settings.ReservedCIDRs = []string{"10.255.0.0/16"}
	milan.pass()
	if pools := got(milan, milan.federation.FederationV1alpha1().AddressPools().List).Items; len(pools) != 1 || !slices.Contains(pools[0].Spec.Reserved, "10.255.0.0/16") {
		t.Errorf("the pool of the settings is %v", pools)
	}
}

// overlapAny tells whether a range overlaps one of others.
func overlapAny(others []string, text string) bool {
	return slices.ContainsFunc(prefixes(others), prefixOf(text).Overlaps)
}

// Whatever networks two clusters have, they agree, nothing overlaps what is
// theirs, and a second look writes nothing.
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
				if text := prefixOf(fmt.Sprintf("fd00:10:%d::/%d", third, rapid.SampledFrom([]int{48, 56}).Draw(t, who+" bits"))).String(); !overlapAny(s.PodCIDRs, text) {
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
						t.Fatalf("%s calls %s what is its own: %s", w.name, mapping.CIDR, mapping.Mapped)
					}
				}
			}
			if writes := w.pass(); len(writes) > 0 {
				t.Fatalf("a second look writes %v", writes)
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

func TestNoControlAddressIsGivenToAnotherCluster(t *testing.T) {
	control := netip.PrefixFrom(model.ControlAddress(model.PublicKey{1}), 48).Masked()
	for _, cidr := range prefixes(DefaultSettings().PoolCIDRs) {
		if cidr.Overlaps(control) {
			t.Errorf("%s has gateways' control addresses in it, which are in %s", cidr, control)
		}
	}
}

func TestSettingsThatAreWrongAreRefused(t *testing.T) {
	none := settingsOf("10.0.0.0/16")
	for what, settings := range map[string]settings{"the defaults": {Settings: DefaultSettings()}, "no external addresses": none} {
		if errs := settings.Validate(); len(errs) > 0 {
			t.Errorf("%s: %v", what, errs)
		}
	}
	for name, change := range map[string]func(*settings){
		"an endpoint without a port":     func(s *settings) { s.Endpoints = []string{"rome.example.org"} },
		"external addresses and none":    func(s *settings) { s.ExternalCIDRs = []string{NoExternalCIDRs, "10.70.0.0/24"} },
		"an MTU that is too small":       func(s *settings) { s.MTU = 500 },
		"a pool of nothing":              func(s *settings) { s.PoolCIDRs = nil },
		"peers that may have no address": func(s *settings) { s.PeerCIDRs = nil },
		"peers that may have a word":     func(s *settings) { s.PeerCIDRs = []string{"all"} },
	} {
		s := settingsOf("10.0.0.0/16")
		if change(&s); len(s.Validate()) == 0 {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestThePrivateKeyIsNotCached(t *testing.T) {
	secret, err := newKeys(installation)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := withoutPrivateKey(secret)
	if err != nil || len(kept.(*corev1.Secret).Data) != 1 || len(kept.(*corev1.Secret).Data[v1alpha1.WireGuardPublicKey]) == 0 {
		t.Errorf("the cache holds %v (%v)", kept, err)
	}
}
