// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/kit/watches"
)

const (
	romeID, milanID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	naplesID        = "33333333-3333-4333-8333-333333333333"
	installation    = "liqo"
)

var (
	// web is the pod of the tests.
	web = kit.Request("shop", "web")
	// shop is the namespace that is offloaded to all providers.
	shop = kit.Request("", "shop")
	// milan is the ForeignCluster of a provider.
	milan = kit.Request("", "milan")
)

// world is the consumer rome, which has tunnels to milan and naples and offloads a namespace to
// both.
type world struct {
	*kittest.Cluster
	*Addresses
	t         *testing.T
	pods      *pods
	services  *namespaces
	ofPods    *PodReconciler
	endpoints *EndpointReconciler
	apiServer *APIServerReconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	info := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
	for use, cidr := range map[v1alpha1.ClusterRangeUse]string{
		v1alpha1.RangeOfPods: "10.0.0.0/16", v1alpha1.RangeOfServices: "10.96.0.0/12",
		v1alpha1.RangeOfNodes: "172.18.0.0/16",
	} {
		info.Status.Ranges = append(info.Status.Ranges, v1alpha1.ClusterRange{
			Use: use, CIDR: cidr, Source: v1alpha1.SourceValue,
		})
	}
	w := &world{
		t: t, pods: &pods{of: map[string][]*corev1.Pod{}, unknown: sets.New[string]()},
		services: &namespaces{forgotten: sets.New[string]()},
		Cluster: kittest.New(t, info,
			&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
			&v1alpha1.NamespaceOffloading{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: v1alpha1.NamespaceOffloadingName},
			}),
	}
	if err := Index(t.Context(), w.Cluster); err != nil {
		t.Fatal(err)
	}
	w.Addresses = &Addresses{
		Client: server{w.Controller, w.Cluster}, Live: w.Cluster, Installation: kittest.Cached(w.Cluster),
		Clock: w.Cluster.Clock, Namespace: installation, ClusterID: romeID,
	}
	w.ofPods = &PodReconciler{Addresses: w.Addresses, Pods: w.pods, Events: w.Events}
	w.endpoints = &EndpointReconciler{Addresses: w.Addresses, Services: w.services, Events: w.Events}
	w.apiServer = &APIServerReconciler{
		Addresses: w.Addresses, Address: netip.MustParseAddrPort("10.96.0.1:6443"), Events: w.Events,
	}
	w.pool("10.70.0.0/24")
	for name, id := range map[string]string{"milan": milanID, "naples": naplesID} {
		w.connect(name, id)
		node := kittest.VirtualNode(name, id)
		node.Status.APIAccess = v1alpha1.APIAccessConsumer
		w.Add(node)
		w.offload(name, "shop")
	}
	w.runs("milan", "10.1.2.2")
	return w
}

// server is the client of the controllers. It allocates the last free address of the pool for
// each mapping, as the API server does by chance.
type server struct {
	client.Client
	cluster *kittest.Cluster
}

// Create implements client.Writer.
func (s server) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if mapping, ok := object.(*v1alpha1.AddressMapping); ok {
		if err := s.allocate(ctx, mapping); err != nil {
			s.cluster.Writes = append(s.cluster.Writes, kittest.Write{
				Verb: "create", Kind: "AddressMapping", Namespace: mapping.Namespace, Name: mapping.Name,
			})
			return err
		}
	}
	return s.Client.Create(ctx, object, options...)
}

func (s server) allocate(ctx context.Context, mapping *v1alpha1.AddressMapping) error {
	if len(mapping.Spec.Ports) == 0 && mapping.Annotations[v1alpha1.AnnotationOriginPod] == "" {
		return apierrors.NewBadRequest("an address mapping has no ports")
	}
	pool := &v1alpha1.AddressPool{}
	if err := s.cluster.Get(ctx, client.ObjectKey{Name: mapping.Spec.Pool}, pool); err != nil {
		return err
	}
	var all v1alpha1.AddressMappingList
	if err := s.cluster.List(ctx, &all); err != nil {
		return err
	}
	var taken addresses.Set
	for _, other := range all.Items {
		if mapped, err := netip.ParseAddr(other.Spec.Mapped); err == nil {
			taken = taken.With(netip.PrefixFrom(mapped, mapped.BitLen()))
		}
	}
	var cidrs []netip.Prefix
	for _, cidr := range pool.Spec.CIDRs {
		cidrs = append(cidrs, netip.MustParsePrefix(cidr))
	}
	address := netip.MustParseAddr(mapping.Spec.Address)
	mapped, err := addresses.NewPool(cidrs, nil).Allocate(taken, addresses.Request{
		Range: netip.PrefixFrom(address, address.BitLen()), Chance: math.MaxUint32,
	})
	if err != nil {
		refusal := apierrors.NewForbidden(v1alpha1.Resource("addressmappings"), mapping.Name, err)
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseAddressesExhausted}}
		return refusal
	}
	mapping.Spec.Mapped = mapped.Addr().String()
	return nil
}

// pods implements Pods with the pods of each node.
type pods struct {
	of map[string][]*corev1.Pod
	// unknown are the nodes whose pods are not known yet.
	unknown sets.Set[string]
}

// List implements Pods.
func (p *pods) List(_ context.Context, node string) ([]*corev1.Pod, bool, error) {
	return p.of[node], !p.unknown.Has(node), nil
}

// Seen implements Pods.
func (p *pods) Seen(node string) ([]*corev1.Pod, bool) { return p.of[node], !p.unknown.Has(node) }

// Get implements Pods.
func (p *pods) Get(node, namespace, name string) *corev1.Pod {
	for _, pod := range p.of[node] {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}

// Synced implements Pods.
func (p *pods) Synced(node string) bool { return !p.unknown.Has(node) }

// Listen implements Pods.
func (p *pods) Listen(func(node string, pod *corev1.Pod)) {}

// namespaces have the Services and EndpointSlices of the namespace shop, and implement Services.
type namespaces struct {
	services, slices []client.Object
	// unknown is true if the namespaces are not complete, and forgotten are the namespaces that are not watched any
	// more.
	unknown   bool
	forgotten sets.Set[string]
}

// Of implements Services.
func (n *namespaces) Of(_ context.Context, namespace string) (*watches.NamespaceServices, error) {
	n.forgotten.Delete(namespace)
	if n.unknown {
		return nil, nil
	}
	return &watches.NamespaceServices{
		Services: corelisters.NewServiceLister(kittest.Indexer(n.services...)).Services(namespace),
		Slices:   discoverylisters.NewEndpointSliceLister(kittest.Indexer(n.slices...)).EndpointSlices(namespace),
	}, nil
}

// Forget implements Services.
func (n *namespaces) Forget(namespace string) { n.forgotten.Insert(namespace) }

// runs creates the pod on a provider, with these addresses.
func (w *world) runs(provider string, addresses ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: web.Namespace, Name: web.Name, CreationTimestamp: metav1.NewTime(w.Cluster.Clock.Now()),
	}}
	for _, address := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
	}
	w.pods.of[naming.NodeName(provider)] = append(w.pods.of[naming.NodeName(provider)], pod)
}

// connect creates the tunnel to a provider: rome reaches the pods of milan at 10.1, and the pods of
// any other provider at 10.3.
func (w *world) connect(name, id string) {
	w.t.Helper()
	mapped := "10.3.0.0/16"
	if name == "milan" {
		mapped = "10.1.0.0/16"
	}
	w.Add(&v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: name},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: id,
			Local: []v1alpha1.CIDRMapping{
				{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}, {CIDR: "10.70.0.0/24", Mapped: "10.71.0.0/24"},
			},
			Remote: []v1alpha1.CIDRMapping{
				{CIDR: "10.0.0.0/16", Mapped: mapped}, {CIDR: "fd00:1::/64", Mapped: "fd00:2::/64"},
			},
		},
	})
}

func (w *world) disconnect(name string) {
	w.t.Helper()
	w.Remove(&v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: name}})
}

// withoutPorts removes the ports of the AddressMappings of an origin, so that all ports can be reached.
func (w *world) withoutPorts(of origin) {
	w.t.Helper()
	found, err := w.mappingsOf(w.t.Context(), of)
	if err != nil || len(found) == 0 {
		w.t.Fatalf("mapped: %v, error %v", found, err)
	}
	for i := range found {
		mapping := found[i].DeepCopy()
		mapping.Spec.Ports = nil
		if err := w.WithWatch.Update(w.t.Context(), mapping); err != nil {
			w.t.Fatal(err)
		}
	}
}

// offload offloads exactly these namespaces to a provider.
func (w *world) offload(provider string, namespaces ...string) {
	w.t.Helper()
	m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace(provider), Name: "rome"}}
	w.Remove(m)
	for _, name := range namespaces {
		m.Spec.Namespaces = append(m.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name + "-rome"})
	}
	w.Add(m)
}

// pool replaces the pool of single addresses; there is none without CIDRs.
func (w *world) pool(cidrs ...string) {
	w.t.Helper()
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressPool}}
	w.Remove(pool)
	if len(cidrs) > 0 {
		pool.Spec.CIDRs = cidrs
		w.Add(pool)
	}
}

// withoutNode deletes the virtual node of a provider.
func (w *world) withoutNode(name string) {
	w.t.Helper()
	w.Remove(&v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace(name), Name: name}})
}

// endpoint returns an EndpointSlice of the Service db with one endpoint.
func endpoint(name, address string, ports ...int32) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shop.Name, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "db"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
	for _, port := range ports {
		protocol := corev1.ProtocolTCP
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Port: &port, Protocol: &protocol})
	}
	return slice
}

// serves replaces the EndpointSlices of the Service db.
func (w *world) serves(slices ...*discoveryv1.EndpointSlice) {
	w.services.services = []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Name, Name: "db"}}}
	w.services.slices = nil
	for _, slice := range slices {
		w.services.slices = append(w.services.slices, slice)
	}
}

// expect fails the test unless a pass leaves exactly these mappings, and the next one writes
// nothing.
func (w *world) expect(reconciler reconcile.Reconciler, request reconcile.Request, want ...string) {
	w.t.Helper()
	w.Pass(reconciler, request)
	if diff := cmp.Diff(want, w.allMappings()); diff != "" {
		w.t.Fatalf("mapped (-want +got):\n%s", diff)
	}
	if _, writes := w.Pass(reconciler, request); len(writes) > 0 {
		w.t.Fatalf("a pass with nothing to change writes %v", writes)
	}
}

// allMappings returns all mappings as text.
func (w *world) allMappings() []string {
	w.t.Helper()
	var found []string
	all := kittest.List(w.Cluster, &v1alpha1.AddressMappingList{}, client.InNamespace(installation))
	for _, mapping := range all.Items {
		peer := mapping.Labels[v1alpha1.LabelForeignCluster]
		text := fmt.Sprintf("%s for %s: %s", mapping.Spec.Address, peer, mapping.Spec.Mapped)
		for _, port := range mapping.Spec.Ports {
			text += fmt.Sprintf(" %s/%d", port.Protocol, port.Port)
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return found
}

// noEvents fails the test if there was an event.
func (w *world) noEvents() {
	w.t.Helper()
	if events := w.Recorded(); len(events) > 0 {
		w.t.Errorf("events: %v", events)
	}
}

// podOrigin returns the origin of a pod.
func podOrigin(key types.NamespacedName) origin { return origin{kind: ofPod, key: key} }
