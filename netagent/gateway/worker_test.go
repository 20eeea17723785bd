// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/kernel/fake"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

const namespace = "liqo"

func key(n byte) string { return base64.StdEncoding.EncodeToString(append(make([]byte, 31), n)) }

func endpoint(name string, n byte) *v1alpha1.TunnelEndpoint {
	remote := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100 + n}), 16).String()
	return &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Generation: 1},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: "id-of-" + name, PublicKey: key(n), Endpoints: []string{"172.16.2.1:51820"},
			Local:  []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}},
			Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: remote}},
		},
	}
}

func rome(name, address string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	return n
}

// bench is a gateway with its cluster, on in-memory kernels for the node (outer) and the gateway (inside).
type bench struct {
	*worker
	outer, inside *fake.Kernel
	active        string
	objects       agent.Objects
	private       byte
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{outer: fake.New(), inside: fake.New(), active: "rome-1", private: 1}
	b.outer.Inner = b.inside
	b.objects = agent.Objects{
		Ranges:          netmap.Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}},
		Nodes:           []*corev1.Node{rome("rome-1", "192.168.1.1"), rome("rome-2", "192.168.1.2")},
		TunnelEndpoints: []*v1alpha1.TunnelEndpoint{endpoint("milan", 2)},
		Gateways:        []string{"rome-1", "rome-2"},
	}
	shared, err := agent.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	b.worker = &worker{
		self: "rome-1", cluster: agent.Cluster{Port: 51820},
		objects: func() (agent.Objects, error) { return b.objects, nil },
		active:  func() string { return b.active },
		key:     func() (model.PrivateKey, error) { return model.PrivateKey{b.private * 8}, nil },
		endpoint: func(te *v1alpha1.TunnelEndpoint) (netip.AddrPort, bool) {
			return netip.MustParseAddrPort(te.Spec.Endpoints[0]), false
		},
		mtu:   func(netip.Addr) (int, error) { return 1500, nil },
		inner: b.inside, host: apply.New(b.outer), inside: apply.New(b.inside),
		prober: &probe.Prober{}, echo: &probe.Echo{}, metrics: shared,
	}
	return b
}

// must runs two passes, and requires that the second one writes nothing. It returns the tunnel.
func (b *bench) must(t *testing.T) model.Tunnel {
	t.Helper()
	if err := b.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := b.outer.Writes + b.inside.Writes
	if err := b.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if writes := b.outer.Writes + b.inside.Writes - before; writes != 0 {
		t.Errorf("a second pass made %d writes", writes)
	}
	tunnel, err := b.inside.Tunnel(model.TunnelLink)
	if err != nil {
		t.Fatal(err)
	}
	return tunnel
}

func TestOnlyTheActiveGatewayHasPeers(t *testing.T) {
	b := newBench(t)
	b.active = ""
	if err := b.pass(t.Context()); err != nil || b.outer.Writes+b.inside.Writes != 0 {
		t.Errorf("before a gateway is active: %v, %d writes", err, b.outer.Writes+b.inside.Writes)
	}
	for _, test := range []struct {
		active string
		peers  int
	}{{"rome-2", 0}, {"rome-1", 1}, {"rome-2", 0}, {"rome-1", 1}} {
		b.active = test.active
		if got := len(b.must(t).Peers); got != test.peers {
			t.Errorf("while %s is active: %d peers", test.active, got)
		}
		if got := b.outcome().active; got != (test.peers == 1) {
			t.Errorf("while %s is active, rome-1 is active: %v", test.active, got)
		}
	}
}

// The gateway's Node was deleted while it runs, and another gateway is active.
func TestGatewayWithoutANodeHasNoTunnelPeers(t *testing.T) {
	b := newBench(t)
	if got := len(b.must(t).Peers); got != 1 {
		t.Fatalf("%d peers", got)
	}
	b.objects.Nodes, b.active = b.objects.Nodes[1:], "rome-2"
	for range 2 {
		if err := b.pass(t.Context()); err == nil {
			t.Error("the pass succeeded")
		}
	}
	tunnel, err := b.inside.Tunnel(model.TunnelLink)
	if err != nil || len(tunnel.Peers) != 0 || b.outcome().active {
		t.Errorf("%d peers, %v; active: %v", len(tunnel.Peers), err, b.outcome().active)
	}
}

func TestAnotherPrivateKeyKeepsThePeers(t *testing.T) {
	b := newBench(t)
	before, previous := b.must(t), b.outcome().publicKey
	b.private = 2
	after := b.must(t)
	if before.PrivateKey == after.PrivateKey {
		t.Error("the key is the same")
	}
	if now := b.outcome().publicKey; now == previous || now != after.PrivateKey.Public().String() {
		t.Errorf("the public key was %s and is %s", previous, now)
	}
	if diff := cmp.Diff(
		before.Peers, after.Peers, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	); diff != "" {
		t.Error(diff)
	}
}

// Whichever call to the kernel fails, the pass returns the error, and the next pass completes the configuration.
func TestNextPassRepairsAFailedOne(t *testing.T) {
	fresh := newBench(t)
	fresh.must(t)
	want, calls := fresh.outer.Dump()+fresh.inside.Dump(), fresh.outer.Calls+fresh.inside.Calls
	for failing := 1; failing <= calls; failing++ {
		b := newBench(t)
		count := 0
		fail := func(int) error {
			if count++; count == failing {
				return errors.New("no luck")
			}
			return nil
		}
		b.outer.Fail, b.inside.Fail = fail, fail
		first := b.pass(t.Context())
		// A failed flush does not make the gateway unhealthy.
		if reported := first != nil && b.outcome().failed != ""; count >= failing &&
			reported == (b.inside.FailedFlushes > 0) {
			t.Errorf("call %d failed and the pass returned %v", failing, first)
		}
		b.outer.Fail, b.inside.Fail = nil, nil
		b.must(t)
		if b.outcome().failed != "" {
			t.Errorf("after call %d failed, the next pass reported: %s", failing, b.outcome().failed)
		}
		if diff := cmp.Diff(want, b.outer.Dump()+b.inside.Dump()); diff != "" {
			t.Fatalf("after call %d had failed:\n%s", failing, diff)
		}
	}
}

func TestActiveGatewayWritesChangedStatuses(t *testing.T) {
	b := newBench(t)
	bad := endpoint("lucca", 3)
	bad.Spec.Remote[0].Mapped = "10.0.0.0/16"
	b.objects.TunnelEndpoints = append(b.objects.TunnelEndpoints, bad)
	client := federationfake.NewSimpleClientset(b.objects.TunnelEndpoints[0], bad)
	ofGateway, err := NewMetrics(func(m metrics.Registerable) error { return metrics.NewKubeRegistry().Register(m) })
	if err != nil {
		t.Fatal(err)
	}
	list := func() []*v1alpha1.TunnelEndpoint {
		all, err := client.FederationV1alpha1().TunnelEndpoints(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var endpoints []*v1alpha1.TunnelEndpoint
		for i := range all.Items {
			endpoints = append(endpoints, &all.Items[i])
		}
		return endpoints
	}
	r := &reporter{
		worker: b.worker, client: client.FederationV1alpha1().TunnelEndpoints(namespace), metrics: ofGateway,
		listeners: &listeners{}, now: time.Now,
		current: func() ([]*v1alpha1.TunnelEndpoint, error) { return list(), nil }, before: make(map[string]kernel.Traffic),
	}
	writes := func(what string, want int) {
		t.Helper()
		if err := b.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := r.report(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got := 0
		for _, action := range client.Actions() {
			if action.GetVerb() == "update" && action.GetSubresource() == "status" {
				got++
			}
		}
		client.ClearActions()
		if got != want {
			t.Errorf("%s: %d statuses were written, want %d", what, got, want)
		}
	}
	b.active = "rome-2"
	writes("standby", 0)
	b.active = "rome-1"
	writes("active", 2)
	phases := make(map[string]v1alpha1.TunnelPhase)
	for _, te := range list() {
		phases[te.Name] = te.Status.Phase
	}
	if diff := cmp.Diff(
		map[string]v1alpha1.TunnelPhase{"milan": v1alpha1.TunnelConnecting, "lucca": v1alpha1.TunnelError}, phases,
	); diff != "" {
		t.Error(diff)
	}
	b.inside.SetTraffic(model.PublicKey{31: 2}, kernel.Traffic{Handshake: time.Now(), Received: 100, Sent: 200})
	writes("after a handshake", 1)
	b.inside.SetTraffic(model.PublicKey{31: 2}, kernel.Traffic{Handshake: time.Now(), Received: 1000, Sent: 2000})
	writes("after more bytes", 0)
	b.inside.MoveEndpoint(model.TunnelLink, model.PublicKey{31: 2}, netip.MustParseAddrPort("172.16.9.9:1"))
	writes("after the peer has roamed", 1)
	b.private = 2
	writes("with another key", 2)
	for _, te := range list() {
		if want := (model.PrivateKey{16}).Public().String(); te.Status.PublicKey != want {
			t.Errorf("%s: status reports key %s, want %s", te.Name, te.Status.PublicKey, want)
		}
		if te.Status.MTU != 1420 {
			t.Errorf("%s: status reports MTU %d", te.Name, te.Status.MTU)
		}
	}
	writes("with the same key", 0)
	b.active = "rome-2"
	writes("standby again", 0)
}

// gathered returns the values in a registry by metric name and label. A histogram has two: count and sum.
func gathered(t *testing.T, registry metrics.KubeRegistry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			switch {
			case m.GetHistogram() != nil:
				values[name+" observed"], values[name+" in all"] = float64(
					m.GetHistogram().GetSampleCount(),
				), m.GetHistogram().
					GetSampleSum()
			case m.GetGauge() != nil:
				values[name] = m.GetGauge().GetValue()
			default:
				values[name] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestMetricsReportTunnelsAndDropDeletedPeers(t *testing.T) {
	b := newBench(t)
	client := federationfake.NewSimpleClientset(b.objects.TunnelEndpoints[0])
	registry := metrics.NewKubeRegistry()
	ofGateway, err := NewMetrics(registry.Register)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	r := &reporter{
		worker: b.worker, client: client.FederationV1alpha1().TunnelEndpoints(namespace), metrics: ofGateway,
		listeners: &listeners{}, now: func() time.Time { return now },
		current: func() ([]*v1alpha1.TunnelEndpoint, error) {
			return b.objects.TunnelEndpoints, nil
		}, before: make(map[string]kernel.Traffic),
	}
	milan := model.PublicKey{31: 2}
	want := map[string]float64{
		"federation_gateway_active": 1, "federation_gateway_takeovers_total": 1, "federation_gateway_wireguard kernel": 1,
		"federation_tunnel_received_packets_total": 0, "federation_tunnel_sent_packets_total": 0,
		"federation_tunnel_connected milan": 0, "federation_tunnel_handshake_age_seconds milan": -1,
		"federation_tunnel_mtu_bytes milan": 0, "federation_tunnel_path_mtu_bytes milan": -1,
		"federation_tunnel_received_bytes_total milan": 0, "federation_tunnel_sent_bytes_total milan": 0,
	}
	expectMetrics := func(what string, changes map[string]float64) {
		t.Helper()
		if err := r.report(t.Context()); err != nil {
			t.Fatal(err)
		}
		maps.Copy(want, changes)
		if diff := cmp.Diff(want, gathered(t, registry), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	b.must(t)
	b.prober.Set(nil) // this test sends the probes
	expectMetrics("no handshake yet", nil)

	b.inside.SetTraffic(milan, kernel.Traffic{Handshake: now.Add(-time.Minute), Received: 100, Sent: 200})
	b.inside.PacketsReceived, b.inside.PacketsSent = 3, 4
	ofGateway.Answered("milan", 3*time.Millisecond)
	ofGateway.Answered("milan", 4*time.Millisecond)
	ofGateway.Lost("milan")
	received := map[string]float64{
		"federation_tunnel_handshake_age_seconds milan":    60,
		"federation_tunnel_received_bytes_total milan":     100,
		"federation_tunnel_sent_bytes_total milan":         200,
		"federation_tunnel_received_packets_total":         3,
		"federation_tunnel_sent_packets_total":             4,
		"federation_tunnel_probes_answered_total milan":    2,
		"federation_tunnel_probes_lost_total milan":        1,
		"federation_tunnel_latency_seconds milan observed": 2,
		"federation_tunnel_latency_seconds milan in all":   .007,
	}
	expectMetrics("after a handshake", received)
	expectMetrics("no change", nil)

	// The counters of a recreated link start from zero.
	b.inside.SetTraffic(milan, kernel.Traffic{Handshake: now, Received: 10, Sent: 20})
	b.inside.PacketsReceived, b.inside.PacketsSent = 1, 1
	b.answers(t, "milan")
	expectMetrics("a peer that replies", map[string]float64{
		"federation_tunnel_connected milan":             1,
		"federation_tunnel_handshake_age_seconds milan": 0,
		"federation_tunnel_received_bytes_total milan":  110,
		"federation_tunnel_sent_bytes_total milan":      220,
		"federation_tunnel_received_packets_total":      4,
		"federation_tunnel_sent_packets_total":          5,
	})

	b.prober.Set(nil)
	if err := b.inside.DeleteLink(model.TunnelLink); err != nil {
		t.Fatal(err)
	}
	delete(want, "federation_gateway_wireguard kernel")
	expectMetrics(
		"no tunnel",
		map[string]float64{"federation_tunnel_connected milan": 0, "federation_tunnel_handshake_age_seconds milan": -1},
	)
	te, err := r.client.Get(t.Context(), "milan", metav1.GetOptions{})
	if err != nil || te.Status.Implementation != "" {
		t.Errorf("implementation of a missing tunnel: %q, %v", te.Status.Implementation, err)
	}

	b.must(t)
	b.objects.TunnelEndpoints = nil
	maps.DeleteFunc(want, func(name string, _ float64) bool { return strings.Contains(name, "milan") })
	expectMetrics("peer deleted", map[string]float64{"federation_gateway_wireguard kernel": 1})
	b.active = "rome-2"
	b.must(t)
	expectMetrics("standby", map[string]float64{"federation_gateway_active": 0})
}

// answers makes a peer's gateway reply to a probe.
func (b *bench) answers(t *testing.T, name string) {
	t.Helper()
	self, at := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.87.0.1")
	echo := &probe.Echo{}
	echo.Allow([]netip.Addr{self})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.prober.OnReply, b.prober.OnLoss = func(string, time.Duration) { cancel() }, func(string) {}
	b.prober.Set(
		map[string]probe.Target{name: {Peer: at, Self: self, Endpoint: netip.MustParseAddrPort("172.16.2.1:51820")}},
	)
	listen := func(at netip.AddrPort) net.PacketConn {
		conn, err := net.ListenPacket("udp4", at.String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	server, client := listen(netip.AddrPortFrom(at, model.EchoPort)), listen(netip.AddrPortFrom(self, 0))
	var ended errgroup.Group
	ended.Go(func() error { return echo.Serve(ctx, server, false) })
	ended.Go(func() error { return b.prober.Run(ctx, client, nil, 10*time.Millisecond) })
	if err := ended.Wait(); err != nil || !b.prober.Result(name).Connected {
		t.Fatalf("no reply to the probe: %v", err)
	}
}

// Peers use the previous key until a new one is reported. A gateway whose key changed while it was not running
// reports the new key at once.
func TestNewKeyIsReportedAtOnceAfterAStart(t *testing.T) {
	b := newBench(t)
	b.must(t)
	for name, test := range map[string]struct {
		reported string
		want     v1alpha1.TunnelPhase
	}{
		"the same key":      {b.outcome().publicKey, v1alpha1.TunnelConnected},
		"another key":       {key(9), v1alpha1.TunnelConnecting},
		"none reported yet": {"", v1alpha1.TunnelConnected},
	} {
		t.Run(name, func(t *testing.T) {
			te := endpoint("milan", 2)
			te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, PublicKey: test.reported}
			client := federationfake.NewSimpleClientset(te).FederationV1alpha1().TunnelEndpoints(namespace)
			ofGateway, err := NewMetrics(func(m metrics.Registerable) error { return metrics.NewKubeRegistry().Register(m) })
			if err != nil {
				t.Fatal(err)
			}
			r := &reporter{
				worker: b.worker, client: client, metrics: ofGateway,
				listeners: &listeners{}, now: time.Now,
				current: func() ([]*v1alpha1.TunnelEndpoint, error) {
					return []*v1alpha1.TunnelEndpoint{te}, nil
				}, before: make(map[string]kernel.Traffic),
			}
			if err := r.report(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := client.Get(t.Context(), "milan", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := test.reported
			if test.want == v1alpha1.TunnelConnecting {
				want = b.outcome().publicKey
			}
			if got.Status.Phase != test.want || got.Status.PublicKey != want {
				t.Errorf("%+v", got.Status)
			}
		})
	}
}

func TestGatewaysOfBothClustersProbeEachOther(t *testing.T) {
	p := model.Peer{
		Local: []netmap.CIDRMapping{
			{CIDR: netip.MustParsePrefix("10.9.0.0/16"), Mapped: netip.MustParsePrefix("10.3.0.0/16")},
		},
		Remote: []netip.Prefix{netip.MustParsePrefix("fd11::/48"), netip.MustParsePrefix("10.1.0.0/16")},
	}
	got := probeTargets(p)
	if len(got) != 1 || got[0].Self != model.GatewaySelf(model.IPv4) || got[0].Peer.String() != "10.1.0.0" {
		t.Errorf("%v", got)
	}
}

func TestPrivateKeyIsNeverPrinted(t *testing.T) {
	ring := newKeyring()
	if _, err := ring.get(); err == nil || len(ring.sharedKeys()) != 0 {
		t.Errorf("without a Secret: %v", err)
	}
	for _, text := range []string{"", "c2VjcmV0", "%"} {
		if err := ring.set([]byte(text)); err == nil || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%q: %v", text, err)
		}
	}
	select {
	case <-ring.known:
		t.Error("an invalid key is in use")
	default:
	}
	for n, shared := range []int{1, 2, 2} {
		for range 2 {
			if err := ring.set([]byte(key(byte(n+1)) + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ring.get()
		if err != nil || got != (model.PrivateKey{31: byte(n + 1)}) || ring.last() != got ||
			len(ring.sharedKeys()) != shared {
			t.Errorf("key %d: %v, %v, %d shared keys", n+1, got, err, len(ring.sharedKeys()))
		}
		<-ring.known
	}
	if err := ring.set([]byte("c2VjcmV0")); err == nil || strings.Contains(err.Error(), "c2VjcmV0") ||
		ring.last() != (model.PrivateKey{31: 3}) {
		t.Errorf("a short key replaces another one: %v", err)
	}
}
