// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/watches"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const naplesID = "33333333-3333-4333-8333-333333333333"

// hub is rome, which has tunnels to milan and naples and extends a namespace to
// both.
type hub struct {
	*world
	addresses *podAddresses
	// pods are those of each node; unknown are the nodes whose pods are not known
	// yet, and the namespaces whose Services are not.
	pods    map[string][]*corev1.Pod
	unknown map[string]bool
	// services and slices are those of the namespace shop; forgotten are the
	// namespaces that need not be watched.
	services, slices cache.Indexer
	forgotten        sets.Set[string]
}

// web is the pod that the tests are about.
var web = cache.ObjectName{Namespace: "shop", Name: "web"}

func newHub(t *testing.T) *hub {
	t.Helper()
	of := settingsOf("10.0.0.0/16")
	of.ServiceCIDRs, of.NodeCIDRs = []string{"10.96.0.0/12"}, []string{"172.18.0.0/16"}
	w := newWorld(t, "rome", romeID, "milan", milanID, of)
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	h := &hub{
		world: w, pods: map[string][]*corev1.Pod{}, unknown: map[string]bool{}, forgotten: sets.New[string](),
		services: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace), slices: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace),
	}
	api := w.federation.FederationV1alpha1()
	mappings := indexed(w, func() []v1alpha1.AddressMapping { return got(w, api.AddressMappings(installation).List).Items })
	w.do(nil, mappings.AddIndexers(mappingIndexers))
	h.addresses = &podAddresses{
		AddressesConfig: &AddressesConfig{Kube: w.kube, Federation: w.federation, Events: w.events, Clock: w.clock, Namespace: installation, ClusterID: romeID},
		clusters:        w.clusters,
		virtualNodes:    listers.NewVirtualNodeLister(indexed(w, func() []v1alpha1.VirtualNode { return got(w, api.VirtualNodes("").List).Items })),
		maps:            listers.NewNamespaceMapLister(indexed(w, func() []v1alpha1.NamespaceMap { return got(w, api.NamespaceMaps("").List).Items })),
		offloadings: listers.NewNamespaceOffloadingLister(indexed(w, func() []v1alpha1.NamespaceOffloading {
			return got(w, api.NamespaceOffloadings("").List).Items
		})),
		pools:          w.pools,
		infos:          w.infos,
		endpoints:      w.endpoints,
		mappings:       mappings,
		bindings:       rbaclisters.NewRoleBindingLister(indexed(w, func() []rbacv1.RoleBinding { return got(w, w.kube.RbacV1().RoleBindings("").List).Items })).RoleBindings(installation),
		nodes:          corelisters.NewNodeLister(indexed(w, func() []corev1.Node { return got(w, w.kube.CoreV1().Nodes().List).Items })),
		podOn:          h.podOn,
		services:       h.watch,
		forgetServices: func(namespace string) { h.forgotten.Insert(namespace) },
		exhausted:      map[bool]time.Time{},
		told:           map[cache.ObjectName]string{},
	}
	h.pool("10.70.0.0/24")
	w.do(api.NamespaceOffloadings("shop").Create(w.ctx(), &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}}, createOptions))
	for name, id := range map[string]string{"milan": milanID, "naples": naplesID} {
		h.connect(name, id)
		w.do(api.VirtualNodes(naming.PeerNamespace(name)).Create(w.ctx(), &v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VirtualNodeSpec{ClusterID: id, NodeName: naming.NodeName(name)},
		}, createOptions))
		h.extend(name, "shop")
	}
	h.runs("milan", "10.1.2.2")
	return h
}

func (h *hub) watch(_ context.Context, namespace string) (*watches.NamespaceServices, error) {
	h.forgotten.Delete(namespace)
	if h.unknown[namespace] {
		return nil, nil
	}
	return &watches.NamespaceServices{
		Services: corelisters.NewServiceLister(h.services).Services(namespace), Slices: discoverylisters.NewEndpointSliceLister(h.slices).EndpointSlices(namespace),
	}, nil
}

func (h *hub) podOn(_ context.Context, node *v1alpha1.VirtualNode, key cache.ObjectName) (*corev1.Pod, bool, error) {
	for _, pod := range h.pods[node.Spec.NodeName] {
		if cache.MetaObjectToName(pod) == key {
			return pod, !h.unknown[node.Spec.NodeName], nil
		}
	}
	return nil, !h.unknown[node.Spec.NodeName], nil
}

// runs puts the pod on a provider, with these addresses.
func (h *hub) runs(provider string, addresses ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, CreationTimestamp: metav1.NewTime(h.clock.Now())}}
	for _, address := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
	}
	h.pods[naming.NodeName(provider)] = append(h.pods[naming.NodeName(provider)], pod)
}

// connect makes the tunnel to a provider: rome calls the pods of milan 10.1, and
// those of any other 10.3.
func (h *hub) connect(name, id string) {
	spec := v1alpha1.TunnelEndpointSpec{
		ClusterID: id,
		Local:     []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}, {CIDR: "10.70.0.0/24", Mapped: "10.71.0.0/24"}},
		Remote:    []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: map[bool]string{true: "10.1.0.0/16", false: "10.3.0.0/16"}[name == "milan"]}, {CIDR: "fd00:1::/64", Mapped: "fd00:2::/64"}},
	}
	h.do(h.federation.FederationV1alpha1().TunnelEndpoints(installation).Create(h.ctx(), &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, createOptions))
}

func (h *hub) disconnect(name string) {
	h.do(nil, h.federation.FederationV1alpha1().TunnelEndpoints(installation).Delete(h.ctx(), name, metav1.DeleteOptions{}))
}

// extend says which namespaces extend to a provider.
func (h *hub) extend(provider string, namespaces ...string) {
	maps := h.federation.FederationV1alpha1().NamespaceMaps(naming.PeerNamespace(provider))
	_ = maps.Delete(h.ctx(), "rome", metav1.DeleteOptions{})
	m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	for _, name := range namespaces {
		m.Spec.Namespaces = append(m.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name + "-rome"})
	}
	h.do(maps.Create(h.ctx(), m, createOptions))
}

func (h *hub) pool(cidrs ...string) {
	pools := h.federation.FederationV1alpha1().AddressPools()
	_ = pools.Delete(h.ctx(), ExternalAddressPool, metav1.DeleteOptions{})
	if len(cidrs) > 0 {
		h.do(pools.Create(h.ctx(), &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: ExternalAddressPool}, Spec: v1alpha1.AddressPoolSpec{CIDRs: cidrs}}, createOptions))
	}
}

// look reconciles something once, and tells when to look again.
func (h *hub) look(key cache.ObjectName) time.Duration {
	h.t.Helper()
	h.refresh()
	h.federation.ClearActions()
	h.kube.ClearActions()
	after, err := h.addresses.reconcile(h.ctx(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	return after
}

// expect tells whether exactly these addresses are mapped, each as for a cluster,
// and that nothing is written when all is well.
func (h *hub) expect(want ...string) {
	h.t.Helper()
	h.expectOf(web, want...)
}

// expectOf is expect when what a key leads to is looked at.
func (h *hub) expectOf(key cache.ObjectName, want ...string) {
	h.t.Helper()
	h.look(key)
	var found []string
	for _, mapping := range got(h.world, h.federation.FederationV1alpha1().AddressMappings(installation).List).Items {
		text := fmt.Sprintf("%s for %s: %s", mapping.Spec.Address, mapping.Labels[v1alpha1.LabelForeignCluster], mapping.Spec.Mapped)
		for _, port := range mapping.Spec.Ports {
			text += fmt.Sprintf(" %s/%d", port.Protocol, port.Port)
		}
		found = append(found, text)
	}
	slices.Sort(found)
	if diff := cmp.Diff(want, found); diff != "" {
		h.t.Fatalf("mapped (-want +got):\n%s", diff)
	}
	h.look(key)
	for _, action := range h.federation.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			h.t.Fatalf("with nothing to do it writes: %s %s", verb, action.GetResource().Resource)
		}
	}
}

func TestAPodOfOneProviderHasAnAddressForTheOthers(t *testing.T) {
	const mapped = "10.1.2.2 for naples: 10.70.0.255"
	for name, test := range map[string]struct {
		change func(h *hub)
		want   []string
	}{
		"while nothing changes":          {func(*hub) {}, []string{mapped}},
		"not when it has ended":          {func(h *hub) { h.pods["liqo-milan"][0].Status.Phase = corev1.PodSucceeded }, nil},
		"not when it is gone":            {func(h *hub) { clear(h.pods) }, nil},
		"until that is sure":             {func(h *hub) { clear(h.pods); h.unknown["liqo-milan"] = true }, []string{mapped}},
		"whoever else is not known":      {func(h *hub) { clear(h.pods); h.unknown["liqo-naples"] = true }, nil},
		"another one when it has moved":  {func(h *hub) { clear(h.pods); h.runs("naples", "10.3.1.1") }, []string{"10.3.1.1 for milan: 10.70.0.255"}},
		"of the younger of two":          {func(h *hub) { h.clock.SetTime(h.clock.Now().Add(time.Minute)); h.runs("naples", "10.3.1.1") }, []string{"10.3.1.1 for milan: 10.70.0.255"}},
		"another one for another":        {func(h *hub) { clear(h.pods); h.runs("milan", "10.1.2.3") }, []string{"10.1.2.3 for naples: 10.70.0.255"}},
		"not where its namespace is not": {func(h *hub) { h.extend("naples", "other") }, nil},
		"not without a tunnel there":     {func(h *hub) { h.disconnect("naples") }, nil},
		"not without one from here":      {func(h *hub) { h.disconnect("milan") }, nil},
		"not by what is no pod's":        {func(h *hub) { clear(h.pods); h.runs("milan", "172.18.0.2") }, nil},
		"not by a family that has none":  {func(h *hub) { clear(h.pods); h.runs("milan", "10.1.2.2", "fd00:2::2") }, []string{mapped}},
		"of the pool as it is now":       {func(h *hub) { h.pool("10.90.0.0/24") }, []string{"10.1.2.2 for naples: 10.90.0.255"}},
		"by both families": {func(h *hub) {
			h.pool("10.70.0.0/24", "fd70::/120")
			clear(h.pods)
			h.runs("milan", "10.1.2.2", "fd00:2::2")
		},
			[]string{mapped, "fd00:2::2 for naples: fd70::ff"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.expect(mapped)
			test.change(h)
			// The second look is after the first one's deletions.
			h.look(web)
			h.expect(test.want...)
			if len(h.events.Events) > 0 {
				t.Errorf("there is an event: %s", <-h.events.Events)
			}
		})
	}
}

// What is known of the pool may be older than what is known of the mapping.
func TestAnAddressOfAPoolThatWasNotSeenYetIsKept(t *testing.T) {
	h := newHub(t)
	h.pool("10.90.0.0/24")
	h.expect("10.1.2.2 for naples: 10.90.0.255")
	h.refresh()
	late := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	h.do(nil, late.Add(&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: ExternalAddressPool}, Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"10.70.0.0/24"}}}))
	now := h.addresses.pools
	h.addresses.pools = listers.NewAddressPoolLister(late)
	h.expect("10.1.2.2 for naples: 10.90.0.255")
	h.addresses.pools = now
	h.pool("10.70.0.0/24")
	h.look(web)
	h.expect("10.1.2.2 for naples: 10.70.0.255")
}

func TestWhereThereIsNoAddressItIsSaidOnceAndTriedLater(t *testing.T) {
	for name, test := range map[string]struct {
		cidrs  []string
		reason string
		after  time.Duration
	}{
		"without a pool":       {nil, ReasonNoExternalAddresses, 0},
		"of one that is empty": {[]string{"10.70.0.0/32"}, ReasonAddressesExhausted, exhaustedRetry},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.pool(test.cidrs...)
			other := cache.ObjectName{Namespace: "shop", Name: "other"}
			pod := h.pods["liqo-milan"][0].DeepCopy()
			pod.Name, pod.Status.PodIPs[0].IP = other.Name, "10.1.2.3"
			h.pods["liqo-milan"] = append(h.pods["liqo-milan"], pod)
			if test.cidrs != nil {
				h.expect("10.1.2.2 for naples: 10.70.0.0")
			}
			for range 3 {
				if after := h.look(other); after > test.after || after == 0 != (test.after == 0) {
					t.Errorf("it is tried again after %s, not %s", after, test.after)
				}
				h.clock.SetTime(h.clock.Now().Add(time.Second))
			}
			if asked := len(h.federation.Actions()); asked > 0 {
				t.Errorf("%d requests to be told the same", asked)
			}
			h.look(web)
			if told := <-h.events.Events; !strings.Contains(told, test.reason) {
				t.Errorf("told %q", told)
			}
			if len(h.events.Events) > 0 {
				t.Errorf("told again: %s", <-h.events.Events)
			}
			h.pool("10.70.0.0/24")
			h.addresses.replenish()
			if after := h.look(other); after != 0 {
				t.Errorf("with addresses it is tried again after %s", after)
			}
			h.refresh()
			if found, err := h.addresses.mappingsOf(other); err != nil || len(found) != 1 {
				t.Errorf("with addresses it has %v, %v", found, err)
			}
		})
	}
}

func TestATunnelAndTheAddressesOfPodsLeaveEachOtherAlone(t *testing.T) {
	h := newHub(t)
	h.expect("10.1.2.2 for naples: 10.70.0.255")
	kept := []v1alpha1.AddressMapping{
		{ObjectMeta: managed(h.fc(), installation, "range"), Spec: v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: ExternalAddressPool, CIDR: "10.70.0.0/30"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: v1alpha1.AddressMappingSpec{ClusterID: naplesID, Pool: ExternalAddressPool, Address: "10.1.2.2"}},
	}
	mappings := h.federation.FederationV1alpha1().AddressMappings(installation)
	for i := range kept {
		h.do(mappings.Create(h.ctx(), &kept[i], createOptions))
	}
	clear(h.pods)
	h.look(web)
	h.refresh()
	if left := got(h.world, mappings.List).Items; len(left) != len(kept) {
		t.Errorf("of the pod that is gone and the others remains %v", left)
	}
	h.runs("milan", "10.1.2.2")
	h.look(web)
	h.refresh()
	h.do(nil, h.removeMappings(h.ctx(), "naples", nil))
	h.do(nil, h.removeMappings(h.ctx(), "milan", nil))
	var left []string
	for _, mapping := range got(h.world, mappings.List).Items {
		left = append(left, mapping.Spec.Address+mapping.Spec.CIDR)
		if isSingle(&mapping) && len(byLabel(&mapping)) > 0 {
			t.Errorf("the tunnel follows the address of a pod, %v", mapping)
		}
	}
	if diff := cmp.Diff([]string{"10.1.2.2", "10.1.2.2"}, left); diff != "" {
		t.Errorf("without tunnels there remain (-want +got):\n%s", diff)
	}
}

func TestVirtualKubeletsReadAddressesAndNobodyElse(t *testing.T) {
	h := newHub(t)
	// Before the chart is there, nothing happens.
	h.look(readers)
	bindings := h.kube.RbacV1().RoleBindings(installation)
	h.do(bindings.Create(h.ctx(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: readersBinding}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: readersBinding},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "somebody"}},
	}, createOptions))
	expect := func(want ...rbacv1.Subject) {
		t.Helper()
		h.look(readers)
		binding, err := bindings.Get(h.ctx(), readersBinding, metav1.GetOptions{})
		h.do(nil, err)
		if diff := cmp.Diff(want, binding.Subjects); diff != "" {
			t.Errorf("who reads them differs (-want +got):\n%s", diff)
		}
		if h.look(readers); len(h.kube.Actions()) > 0 {
			t.Errorf("with nothing to do: %v", h.kube.Actions())
		}
	}
	milan := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-milan", Name: "virtual-kubelet-milan"}
	naples := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-naples", Name: "virtual-kubelet-naples"}
	expect(milan, naples)
	h.do(nil, h.federation.FederationV1alpha1().VirtualNodes("liqo-peer-milan").Delete(h.ctx(), "milan", metav1.DeleteOptions{}))
	expect(naples)
}

func TestTheAPIServerHasAnAddressForEachProviderWithATunnel(t *testing.T) {
	milan := cache.ObjectName{Name: "milan"}
	for name, test := range map[string]struct {
		change func(h *hub)
		want   int
	}{
		"while nothing changes":       {func(*hub) {}, 1},
		"not without a tunnel":        {func(h *hub) { h.disconnect("milan") }, 0},
		"not when it is switched off": {func(h *hub) { h.addresses.Home = netip.Addr{} }, 0},
		"not without virtual nodes": {func(h *hub) {
			h.do(nil, h.federation.FederationV1alpha1().VirtualNodes("liqo-peer-milan").Delete(h.ctx(), "milan", metav1.DeleteOptions{}))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.addresses.Home = netip.MustParseAddr("10.96.0.1")
			for range 2 {
				h.look(milan)
			}
			if len(h.federation.Actions()) > 0 {
				t.Errorf("with nothing to do: %v", h.federation.Actions())
			}
			test.change(h)
			h.look(milan)
			h.refresh()
			found, err := h.addresses.mappingsOf(milan)
			h.do(nil, err)
			if len(found) != test.want {
				t.Fatalf("mapped: %v", found)
			}
			for _, mapping := range found {
				want := v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: ExternalAddressPool, Address: "10.96.0.1", Mapped: "10.70.0.255"}
				if diff := cmp.Diff(want, mapping.Spec); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]cache.ObjectName{milan}, origins(mapping)); diff != "" {
					t.Errorf("it leads to (-want +got):\n%s", diff)
				}
			}
		})
	}
	h := newHub(t)
	h.addresses.Home = netip.MustParseAddr("10.96.0.1")
	h.pool()
	h.look(milan)
	h.look(milan)
	if told := <-h.events.Events; !strings.Contains(told, ReasonNoExternalAddresses) || len(h.events.Events) > 0 {
		t.Errorf("told %q and %d more", told, len(h.events.Events))
	}
}

// shop is the key of the endpoints of the namespace that extends to all.
var shop = cache.ObjectName{Namespace: "shop"}

// endpoint is an EndpointSlice of the Service db with one endpoint.
func endpoint(name, address string, ports ...int32) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: shop.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
	for _, port := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Port: &port, Protocol: ptr.To(corev1.ProtocolTCP)})
	}
	return slice
}

func (h *hub) serves(slices ...*discoveryv1.EndpointSlice) {
	h.t.Helper()
	h.do(nil, h.services.Replace([]any{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Namespace, Name: "db"}}}, ""))
	var all []any
	for _, slice := range slices {
		all = append(all, slice)
	}
	h.do(nil, h.slices.Replace(all, ""))
}

func TestAnEndpointThatIsNoPodHasAnAddressForEachProvider(t *testing.T) {
	const milan, naples = "192.0.2.7 for milan: 10.70.0.255 TCP/5432", "192.0.2.7 for naples: 10.70.0.254 TCP/5432"
	for name, test := range map[string]struct {
		change func(h *hub)
		want   []string
	}{
		"while nothing changes":         {func(*hub) {}, []string{milan, naples}},
		"until it is known that not":    {func(h *hub) { h.serves(); h.unknown["shop"] = true }, []string{milan, naples}},
		"not when it is gone":           {func(h *hub) { h.serves() }, nil},
		"not without its Service":       {func(h *hub) { h.do(nil, h.services.Replace(nil, "")) }, nil},
		"not without a port":            {func(h *hub) { h.serves(endpoint("db", "192.0.2.7")) }, nil},
		"not where its namespace isn't": {func(h *hub) { h.extend("naples") }, []string{milan}},
		"not without a tunnel":          {func(h *hub) { h.disconnect("milan") }, []string{naples}},
		"not without a virtual node": {func(h *hub) {
			h.do(nil, h.federation.FederationV1alpha1().VirtualNodes("liqo-peer-milan").Delete(h.ctx(), "milan", metav1.DeleteOptions{}))
		}, []string{naples}},
		"at the ports that it has now": {func(h *hub) { h.serves(endpoint("db", "192.0.2.7", 5433, 80)) },
			[]string{"192.0.2.7 for milan: 10.70.0.255 TCP/80 TCP/5433", "192.0.2.7 for naples: 10.70.0.254 TCP/80 TCP/5433"}},
		"at the ports of all slices": {func(h *hub) { h.serves(endpoint("db", "192.0.2.7", 5432), endpoint("more", "192.0.2.7", 9187)) },
			[]string{milan + " TCP/9187", naples + " TCP/9187"}},
		"not when its owner keeps it home": {func(h *hub) {
			slice := endpoint("db", "192.0.2.7", 5432)
			slice.Annotations = map[string]string{v1alpha1.AnnotationSkipReflection: ""}
			h.serves(slice)
		}, nil},
		"not when its Service stays home": {func(h *hub) {
			h.do(nil, h.services.Replace([]any{&corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "db", Annotations: map[string]string{v1alpha1.AnnotationSkipReflection: ""},
			}}}, ""))
		}, nil},
		"not where nothing is sent but what is allowed to": {func(h *hub) {
			nodes := h.federation.FederationV1alpha1().VirtualNodes("liqo-peer-naples")
			node, err := nodes.Get(h.ctx(), "naples", metav1.GetOptions{})
			h.do(nil, err)
			node.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{{Resource: "services", Policy: v1alpha1.ReflectionAllowList}}
			h.do(nodes.Update(h.ctx(), node, metav1.UpdateOptions{}))
		}, []string{milan}},
		"not when it came from a consumer": {func(h *hub) {
			slice := endpoint("db", "192.0.2.7", 5432)
			slice.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
			h.serves(slice)
		}, nil},
		"not when it is a name": {func(h *hub) {
			slice := endpoint("db", "db.example.com", 5432)
			slice.AddressType = discoveryv1.AddressTypeFQDN
			h.serves(slice)
		}, nil},
		"not when a node has it": {func(h *hub) {
			h.do(h.kube.CoreV1().Nodes().Create(h.ctx(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}}},
			}, metav1.CreateOptions{}))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.serves(endpoint("db", "192.0.2.7", 5432))
			h.expectOf(shop, milan, naples)
			test.change(h)
			// The second look is after the first one's deletions.
			h.look(shop)
			h.expectOf(shop, test.want...)
			if len(h.events.Events) > 0 {
				t.Errorf("there is an event: %s", <-h.events.Events)
			}
		})
	}
}

func TestNothingOfThisClustersOwnIsOpenedToOthers(t *testing.T) {
	h := newHub(t)
	for what, address := range map[string]string{
		"a pod here": "10.0.3.4", "a Service": "10.96.0.1", "a node": "172.18.0.2", "an address that is given": "10.70.0.9", "a pod on another provider": "10.3.0.9",
		"the metadata service": "169.254.169.254", "loopback": "127.0.0.1", "any address": "0.0.0.0", "a group": "224.0.0.1", "everybody": "255.255.255.255",
	} {
		h.serves(endpoint("db", address, 5432))
		if h.look(shop); len(got(h.world, h.federation.FederationV1alpha1().AddressMappings(installation).List).Items) > 0 {
			t.Fatalf("%s is mapped", what)
		}
	}
	slice := endpoint("db", "192.0.2.7", 5432)
	slice.Endpoints[0].NodeName = ptr.To("liqo-milan")
	h.serves(slice)
	h.expectOf(shop)
}

func TestAnEndpointWithTooManyPortsIsTold(t *testing.T) {
	h := newHub(t)
	ports := make([]int32, v1alpha1.MaxAddressMappingPorts+1)
	for i := range ports {
		ports[i] = int32(i + 1)
	}
	h.serves(endpoint("db", "192.0.2.7", ports...))
	h.expectOf(shop)
	if told := <-h.events.Events; !strings.Contains(told, ReasonTooManyPorts) || !strings.Contains(told, "192.0.2.7") || len(h.events.Events) > 0 {
		t.Errorf("told %q and %d more", told, len(h.events.Events))
	}
}

func TestServicesAreNotWatchedWhereNobodyCallsThem(t *testing.T) {
	h := newHub(t)
	h.look(shop)
	if h.forgotten.Has("shop") {
		t.Error("the Services of a namespace that extends to others are not watched")
	}
	h.extend("milan")
	h.extend("naples")
	h.look(shop)
	if !h.forgotten.Has("shop") {
		t.Error("they are watched when it does not any more")
	}
}
