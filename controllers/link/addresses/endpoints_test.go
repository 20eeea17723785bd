// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestEndpointThatIsNoPodHasAnAddressForEachProvider(t *testing.T) {
	const milan, naples = "192.0.2.7 for milan: 10.70.0.255 TCP/5432", "192.0.2.7 for naples: 10.70.0.254 TCP/5432"
	skipped := map[string]string{v1alpha1.AnnotationSkipReflection: ""}
	for name, test := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"nothing changes":                {func(*world) {}, []string{milan, naples}},
		"it may be deleted":              {func(w *world) { w.serves(); w.services.unknown = true }, []string{milan, naples}},
		"it is deleted":                  {func(w *world) { w.serves() }, nil},
		"its Service is deleted":         {func(w *world) { w.services.services = nil }, nil},
		"it has no port":                 {func(w *world) { w.serves(endpoint("db", "192.0.2.7")) }, nil},
		"its namespace is not offloaded": {func(w *world) { w.offload("naples") }, []string{milan}},
		"no tunnel":                      {func(w *world) { w.disconnect("milan") }, []string{naples}},
		"no virtual node":                {func(w *world) { w.withoutNode("milan") }, []string{naples}},
		"it has other ports": {func(w *world) { w.serves(endpoint("db", "192.0.2.7", 5433, 80)) },
			[]string{"192.0.2.7 for milan: 10.70.0.255 TCP/80 TCP/5433", "192.0.2.7 for naples: 10.70.0.254 TCP/80 TCP/5433"}},
		"another slice has it, too": {func(w *world) {
			w.serves(endpoint("db", "192.0.2.7", 5432), endpoint("more", "192.0.2.7", 9187))
		}, []string{milan + " TCP/9187", naples + " TCP/9187"}},
		"its reflection is skipped": {func(w *world) {
			slice := endpoint("db", "192.0.2.7", 5432)
			slice.Annotations = skipped
			w.serves(slice)
		}, nil},
		"the reflection of its Service is skipped": {func(w *world) {
			w.services.services = []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "db", Annotations: skipped,
			}}}
		}, nil},
		"its Service is reflected to one provider": {func(w *world) {
			w.services.services[0].SetAnnotations(map[string]string{v1alpha1.AnnotationReflectTo: milanID})
		}, []string{milan}},
		"Services are reflected by an allow list": {func(w *world) {
			kittest.Change(w.Cluster, "liqo-peer-naples", "naples", &v1alpha1.VirtualNode{}, func(node *v1alpha1.VirtualNode) {
				node.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{{Resource: "services", Policy: v1alpha1.ReflectionAllowList}}
			})
		}, []string{milan}},
		"it is reflected from a consumer": {func(w *world) {
			slice := endpoint("db", "192.0.2.7", 5432)
			slice.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
			w.serves(slice)
		}, nil},
		"it is a name": {func(w *world) {
			slice := endpoint("db", "db.example.com", 5432)
			slice.AddressType = discoveryv1.AddressTypeFQDN
			w.serves(slice)
		}, nil},
		"a node has its address": {func(w *world) {
			w.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}, Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}},
			}})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serves(endpoint("db", "192.0.2.7", 5432))
			w.expect(w.endpoints, shop, milan, naples)
			test.change(w)
			// Deleted mappings are created again in the pass that follows.
			w.Pass(w.endpoints, shop)
			w.expect(w.endpoints, shop, test.want...)
			w.noEvents()
		})
	}
}

func TestNoAddressOfThisClusterIsOpenedToPeers(t *testing.T) {
	w := newWorld(t)
	w.endpoints.Refused = []netip.Prefix{netip.MustParsePrefix("192.0.2.64/26")}
	kittest.Change(w.Cluster, "", v1alpha1.ClusterInfoName, &v1alpha1.ClusterInfo{}, func(info *v1alpha1.ClusterInfo) {
		info.Status.Ranges = append(info.Status.Ranges, v1alpha1.ClusterRange{
			Use: v1alpha1.RangeReserved, CIDR: "192.0.2.9/32", Source: v1alpha1.SourceAPIServer,
		})
	})
	for name, address := range map[string]string{
		"a local pod": "10.0.3.4", "a Service": "10.96.0.1", "a node": "172.18.0.2", "an allocated address": "10.70.0.9",
		"a pod on another provider": "10.3.0.9", "the metadata service": "169.254.169.254", "loopback": "127.0.0.1",
		"any address": "0.0.0.0", "multicast": "224.0.0.1", "broadcast": "255.255.255.255",
		"an API server": "192.0.2.9", "a refused address": "192.0.2.70",
		"a metadata service that is not link-local": "100.100.100.200",
	} {
		w.serves(endpoint("db", address, 5432))
		if w.Pass(w.endpoints, shop); len(w.allMappings()) > 0 {
			t.Fatalf("%s is mapped", name)
		}
	}
	slice := endpoint("db", "192.0.2.7", 5432)
	slice.Endpoints[0].NodeName = ptr.To("liqo-milan")
	w.serves(slice)
	w.expect(w.endpoints, shop)
}

func TestEndpointWithTooManyPortsIsReported(t *testing.T) {
	w := newWorld(t)
	ports := make([]int32, v1alpha1.MaxAddressMappingPorts+1)
	for i := range ports {
		ports[i] = int32(i + 1)
	}
	w.serves(endpoint("db", "192.0.2.7", ports...))
	w.expect(w.endpoints, shop)
	events := w.Recorded()
	if len(events) != 1 || !strings.Contains(events[0], ReasonTooManyPorts) || !strings.Contains(events[0], "192.0.2.7") {
		t.Errorf("events %q, want one with reason %s about the endpoint", events, ReasonTooManyPorts)
	}
}

func TestServicesOfNamespacesThatAreNotOffloadedAreNotWatched(t *testing.T) {
	w := newWorld(t)
	w.Pass(w.endpoints, shop)
	if w.services.forgotten.Has("shop") {
		t.Error("the Services of an offloaded namespace are not watched")
	}
	w.offload("milan")
	w.offload("naples")
	w.Pass(w.endpoints, shop)
	if !w.services.forgotten.Has("shop") {
		t.Error("the Services are watched while the namespace is not offloaded")
	}
}

func TestNamespacesOfAProviderAreReconciled(t *testing.T) {
	w := newWorld(t)
	w.serves(endpoint("db", "192.0.2.7", 5432))
	w.Pass(w.endpoints, shop)
	w.offload("milan", "bakery")
	milan := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	node := &v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-naples", Name: "naples"}}
	for _, test := range []struct {
		name      string
		got, want []string
	}{
		{"tunnel", texts(w.endpoints.ofTunnel(t.Context(), milan)), []string{"/bakery", "/shop"}},
		{"virtual node", texts(w.endpoints.ofVirtualNode(t.Context(), node)), []string{"/shop"}},
		{"new node", texts(w.endpoints.allMapped(t.Context(), nil)), []string{"/shop"}},
		{"changed pool", texts(w.endpoints.all(t.Context(), nil)), []string{"/bakery", "/shop"}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
