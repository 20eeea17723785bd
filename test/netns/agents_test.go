// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/gateway"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/route"
)

const installation = "liqo"

// soon bounds what agents do by themselves.
const soon = 30 * time.Second

// api is what the agents of one cluster read and write.
type api struct {
	kube       *kubefake.Clientset
	federation *federationfake.Clientset
}

// newAPI makes the objects of a cluster of the world: its nodes, a gateway's
// pod on each, and the tunnel to its peer.
func newAPI(c *cluster, te *v1alpha1.TunnelEndpoint, mappings ...runtime.Object) api {
	var objects []runtime.Object
	for i, n := range c.input.Nodes {
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, CreationTimestamp: metav1.Unix(int64(i), 0)}}
		for _, a := range n.Addresses {
			o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
		}
		for _, p := range n.PodCIDRs {
			o.Spec.PodCIDRs = append(o.Spec.PodCIDRs, p.String())
		}
		objects = append(objects, o)
	}
	a := api{kube: kubefake.NewSimpleClientset(objects...), federation: federationfake.NewSimpleClientset(append(mappings, te)...)}
	// The tracker knows no conflicts, and without them nobody arbitrates.
	version := 0
	a.kube.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var lease *coordinationv1.Lease
		switch write := action.(type) {
		case clienttesting.CreateAction:
			lease = write.GetObject().(*coordinationv1.Lease)
		default:
			return false, nil, nil
		}
		if action.GetVerb() == "update" {
			known, err := a.kube.Tracker().Get(action.GetResource(), installation, lease.Name)
			if err != nil {
				return true, nil, err
			}
			if known.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, lease.Name, nil)
			}
		}
		version++
		lease.ResourceVersion = fmt.Sprint(version)
		return false, nil, nil
	})
	return a
}

func (a api) pod(t *testing.T, node string) {
	t.Helper()
	_, err := a.kube.CoreV1().Pods(installation).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo-gateway-" + node, Labels: map[string]string{"app.kubernetes.io/name": agent.GatewayName}},
		Spec:       corev1.PodSpec{NodeName: node},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (a api) tunnel(t *testing.T, name string) *v1alpha1.TunnelEndpoint {
	t.Helper()
	te, err := a.federation.FederationV1alpha1().TunnelEndpoints(installation).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return te
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(soon)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("after %s it is still not so that %s", soon, what)
		case <-tick.C:
		}
	}
}

// process is an agent at work.
type process struct {
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, run func(context.Context) error) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{cancel: cancel, done: make(chan error, 1)}
	go func() { p.done <- run(ctx) }()
	t.Cleanup(func() { cancel() })
	return p
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	select {
	case err := <-p.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("an agent does not end")
	}
}

func register() func(metrics.Registerable) error {
	registry := metrics.NewKubeRegistry()
	return func(m metrics.Registerable) error { return registry.Register(m) }
}

func (w *world) options(c *cluster, n *node) *agent.Options {
	o := agent.NewOptions("")
	o.NodeName, o.Namespace = n.name, installation
	o.PodCIDRs, o.ExternalCIDRs = []string{"10.0.0.0/16", "fd10::/32"}, []string{"10.70.0.0/24"}
	o.NamespacePath = filepath.Join(namespaces, n.name+"-gateway")
	// What is mended is mended because the kernel told of it.
	o.Resync = time.Hour
	return o
}

func (w *world) startGateway(t *testing.T, c *cluster, n *node, a api, keyFile string) *process {
	t.Helper()
	options := gateway.NewOptions()
	options.Options, options.PrivateKeyFile, options.ProbeInterval = w.options(c, n), keyFile, 200*time.Millisecond
	g, err := gateway.New(options, a.kube, a.federation, n.ns, n.inner, register())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, g.Run)
}

func (w *world) startRoute(t *testing.T, c *cluster, n *node, a api) *process {
	t.Helper()
	r, err := route.New(w.options(c, n), a.kube, a.federation, n.ns, register())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, r.Run)
}

func keyFile(t *testing.T, key model.PrivateKey) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "privateKey")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key[:])), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// endpointOf is the TunnelEndpoint that stands for a peer of the model's input.
func endpointOf(name string, public model.PublicKey, endpoints []string, local, remote [][2]string) *v1alpha1.TunnelEndpoint {
	mappings := func(pairs [][2]string) []v1alpha1.CIDRMapping {
		var all []v1alpha1.CIDRMapping
		for _, p := range pairs {
			all = append(all, v1alpha1.CIDRMapping{CIDR: p[0], Mapped: p[1]})
		}
		return all
	}
	return &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: installation, Generation: 1},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: "id-of-" + name, PublicKey: public.String(), Endpoints: endpoints, MTU: 1400,
			Local: mappings(local), Remote: mappings(remote),
		},
	}
}

// The agents themselves, on the real kernel: they are told of objects, and the
// pods of two clusters with the same addresses talk.
func TestAgentsBringTheFabricUpAndKeepIt(t *testing.T) {
	w := newWorld(t, "nft")
	for _, n := range append(w.rome.nodes, w.milan.nodes...) {
		serve(t, n.pod)
		serve(t, n.ns)
	}
	w.addGateway(t, w.rome.nodes[1], "nft")
	before := w.snapshot(t)
	privateOfRome, publicOfRome := keys(t)
	privateOfMilan, publicOfMilan := keys(t)

	rome := newAPI(w.rome,
		endpointOf("milan", publicOfMilan, []string{netip.AddrPortFrom(w.milan.nodes[0].v4, 51820).String()},
			[][2]string{{"10.0.0.0/16", "10.2.0.0/16"}, {"fd10::/32", "fd11::/32"}, {"10.70.0.0/24", "10.80.0.0/24"}},
			[][2]string{{"10.0.0.0/16", "10.1.0.0/16"}, {"fd10::/32", "fd11::/32"}}),
		&v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Name: "rome-2", Namespace: installation},
			Spec:       v1alpha1.AddressMappingSpec{ClusterID: "id-of-milan", Address: w.rome.nodes[1].v4.String(), Mapped: "10.70.0.1"},
		})
	// Milan cannot call rome: rome calls it.
	milan := newAPI(w.milan, endpointOf("rome", publicOfRome, nil,
		[][2]string{{"10.0.0.0/16", "10.1.0.0/16"}, {"fd10::/32", "fd11::/32"}},
		[][2]string{{"10.0.0.0/16", "10.2.0.0/16"}, {"fd10::/32", "fd11::/32"}, {"10.70.0.0/24", "10.80.0.0/24"}}))

	keyOfRome, keyOfMilan := keyFile(t, privateOfRome), keyFile(t, privateOfMilan)
	rome.pod(t, "rome-1")
	milan.pod(t, "milan-1")
	first := w.startGateway(t, w.rome, w.rome.nodes[0], rome, keyOfRome)
	theirs := w.startGateway(t, w.milan, w.milan.nodes[0], milan, keyOfMilan)
	var routes []*process
	for _, n := range w.rome.nodes {
		routes = append(routes, w.startRoute(t, w.rome, n, rome))
	}
	for _, n := range w.milan.nodes {
		routes = append(routes, w.startRoute(t, w.milan, n, milan))
	}
	connected := func(a api, name, gateway string) func() bool {
		return func() bool {
			s := a.tunnel(t, name).Status
			return s.Phase == v1alpha1.TunnelConnected && s.Gateway == gateway && s.LatencyMicroseconds > 0 && s.Endpoint != ""
		}
	}
	began := time.Now()
	eventually(t, "rome is connected to milan", connected(rome, "milan", "rome-1"))
	eventually(t, "milan is connected to rome", connected(milan, "rome", "milan-1"))
	t.Logf("connected after %s, by %s: %+v", time.Since(began).Round(time.Millisecond), rome.tunnel(t, "milan").Status.Implementation, rome.tunnel(t, "milan").Status)

	w.podsReachPods(t)
	w.nodesReachPods(t)
	w.mappedAddressesAreReached(t)

	t.Run("large packets vanish on the way", func(t *testing.T) {
		// The bridge drops what is too large for a port, and tells nobody.
		ip(t, w.wire, "link set rome-1 mtu 1440")
		says := func(mtu int32, want string) {
			t.Helper()
			began := time.Now()
			eventually(t, want, func() bool {
				te := rome.tunnel(t, "milan")
				if te.Spec.MTU != mtu {
					// The tracker has statuses written with the spec that was read before.
					te.Spec.MTU, te.Generation = mtu, te.Generation+1
					if _, err := rome.federation.FederationV1alpha1().TunnelEndpoints(installation).Update(t.Context(), te, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				c := meta.FindStatusCondition(te.Status.Conditions, v1alpha1.ConditionPathMTU)
				return te.Status.Phase == v1alpha1.TunnelConnected && c != nil && strings.Contains(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), want)
			})
			t.Logf("%d bytes: %s after %s", mtu, want, time.Since(began).Round(time.Millisecond))
		}
		// IPv4, UDP and WireGuard take 60 bytes, and it fills up to 16.
		says(1398, "False PacketsTooLarge: Packets of 1398 bytes, as was agreed upon, are lost on the way to the other gateway or back. The largest that pass have 1376:")
		says(1376, "True PacketsPass: Packets of 1376")
		ip(t, w.wire, "link set rome-1 mtu 1500")
		says(1400, "True PacketsPass: Packets of 1400")
	})

	t.Run("what is broken by hand is mended", func(t *testing.T) {
		for _, breakage := range []struct {
			ns   *kernel.Namespace
			what string
		}{
			{w.rome.nodes[1].ns, "link del liqo.vxlan"},
			{w.rome.nodes[0].ns, "link del liqo.host"},
			{w.rome.nodes[0].inner, "link set liqo.wg down"},
			{w.rome.nodes[1].ns, "route flush table 5872"},
			{w.rome.nodes[1].ns, "-6 route flush table 5872"},
			{w.rome.nodes[1].ns, "rule del priority 480"},
			{w.rome.nodes[0].ns, "route flush table 5873"},
			{w.rome.nodes[0].ns, "rule del priority 481"},
		} {
			ip(t, breakage.ns, breakage.what)
			for _, to := range []string{"10.1.2.2", "fd11:0:2::2"} {
				if _, err := datagram(w.rome.nodes[1].pod, addr(to), 8000, soon); err != nil {
					t.Errorf("after ip %s, to %s: %v", breakage.what, to, err)
				}
			}
		}
	})

	t.Run("another gateway takes over when the active one is silent", func(t *testing.T) {
		rome.pod(t, "rome-2")
		second := w.startGateway(t, w.rome, w.rome.nodes[1], rome, keyOfRome)
		// It stands by: its own kernel knows no peer.
		eventually(t, "the second gateway stands by", func() bool {
			tunnel, err := w.rome.nodes[1].inner.Tunnel(model.TunnelLink)
			return err == nil && tunnel.Port == 51820 && len(tunnel.Peers) == 0
		})
		if _, err := datagram(w.rome.nodes[0].pod, addr("10.1.2.2"), 1, patience); err != nil {
			t.Error(err)
		}
		// The node is cut off, as if it had lost its power.
		died := time.Now()
		ip(t, w.wire, "link set rome-1 down")
		if _, err := datagram(w.rome.nodes[1].pod, addr("10.1.2.2"), 1, soon); err != nil {
			t.Error(err)
		}
		t.Logf("packets went again after %s", time.Since(died).Round(time.Millisecond))
		eventually(t, "rome-2 is active", connected(rome, "milan", "rome-2"))
		if _, err := datagram(w.milan.nodes[1].pod, addr("10.2.2.2"), 1, patience); err != nil {
			t.Errorf("the other way: %v", err)
		}
		// It comes back, and takes its peers away.
		ip(t, w.wire, "link set rome-1 up")
		eventually(t, "the first gateway stands by", func() bool {
			tunnel, err := w.rome.nodes[0].inner.Tunnel(model.TunnelLink)
			return err == nil && len(tunnel.Peers) == 0
		})
		w.podsReachPods(t)

		// One that ends gives the Lease away first.
		second.stop(t)
		eventually(t, "rome-1 is active", connected(rome, "milan", "rome-1"))
		w.podsReachPods(t)
	})

	t.Run("a bad peer harms nobody", func(t *testing.T) {
		bad := endpointOf("lucca", model.PublicKey{9}, nil, [][2]string{{"10.0.0.0/16", "10.0.0.0/16"}}, [][2]string{{"10.0.0.0/16", "10.0.0.0/16"}})
		client := rome.federation.FederationV1alpha1().TunnelEndpoints(installation)
		if _, err := client.Create(t.Context(), bad, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is refused", func() bool { return rome.tunnel(t, "lucca").Status.Phase == v1alpha1.TunnelError })
		if c := rome.tunnel(t, "lucca").Status.Conditions[0]; !strings.Contains(c.Message, "ourselves") {
			t.Errorf("%+v", c)
		}
		w.podsReachPods(t)
		if err := client.Delete(t.Context(), "lucca", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a key changes", func(t *testing.T) {
		next, err := ecdh.X25519().NewPrivateKey(append(make([]byte, 31), 77))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(keyOfMilan, []byte(base64.StdEncoding.EncodeToString(next.Bytes())), 0o600); err != nil {
			t.Fatal(err)
		}
		te := rome.tunnel(t, "milan")
		te.Spec.PublicKey, te.Generation = base64.StdEncoding.EncodeToString(next.PublicKey().Bytes()), 2
		if _, err := rome.federation.FederationV1alpha1().TunnelEndpoints(installation).Update(t.Context(), te, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the tunnel stands again", func() bool {
			s := rome.tunnel(t, "milan").Status
			return s.ObservedGeneration == 2 && s.Phase == v1alpha1.TunnelConnected
		})
		w.podsReachPods(t)
	})

	t.Run("a restart leaves everything in place", func(t *testing.T) {
		theirs.stop(t)
		routes[3].stop(t)
		if w.milan.nodes[0].inner.Implementation(model.TunnelLink) == kernel.InKernel {
			w.podsReachPods(t)
		}
		theirs = w.startGateway(t, w.milan, w.milan.nodes[0], milan, keyOfMilan)
		routes[3] = w.startRoute(t, w.milan, w.milan.nodes[1], milan)
		eventually(t, "milan is connected to rome", connected(milan, "rome", "milan-1"))
		w.podsReachPods(t)
	})

	for _, p := range append(routes, first, theirs) {
		p.stop(t)
	}
	for _, n := range append(w.rome.nodes, w.milan.nodes...) {
		var errs []error
		if n.inner != nil {
			_, err := agent.CleanGateway(n.ns, n.inner)
			errs = append(errs, err)
		}
		_, err := agent.CleanRoute(n.ns)
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// A gateway that moves leaves its node as it is. When the network is switched
// off soon after that, nobody but the route agent is there to clear it.
func TestARouteAgentThatEndsForGoodClearsWhatAGatewayHasLeft(t *testing.T) {
	w := newWorld(t, "nft")
	before := w.snapshot(t)
	private, _ := keys(t)
	_, publicOfMilan := keys(t)
	rome := newAPI(w.rome, endpointOf("milan", publicOfMilan, nil,
		[][2]string{{"10.0.0.0/16", "10.2.0.0/16"}}, [][2]string{{"10.0.0.0/16", "10.1.0.0/16"}}))
	deleted := metav1.Now()
	if err := rome.kube.Tracker().Add(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: agent.RouteName, Namespace: installation, DeletionTimestamp: &deleted},
	}); err != nil {
		t.Fatal(err)
	}
	n := w.rome.nodes[0]
	holds := func(name string) bool {
		links, err := n.ns.Links()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(links, func(l kernel.Link) bool { return l.Name == name })
	}
	moving, route := w.startGateway(t, w.rome, n, rome, keyFile(t, private)), w.startRoute(t, w.rome, n, rome)
	eventually(t, "both agents have set rome-1 up", func() bool { return holds(model.HostLink) && holds(model.OverlayLink) })
	moving.stop(t)
	if !holds(model.HostLink) {
		t.Error("the gateway has removed its own")
	}
	route.stop(t)
	if _, err := os.Stat(filepath.Join(namespaces, "rome-1-gateway")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the gateway's namespace is still there: %v", err)
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
