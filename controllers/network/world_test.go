// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const (
	romeID, milanID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	installation    = "liqo"
)

// tb is what tests and properties have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is one cluster, which knows one other.
type world struct {
	*reconciler
	t          tb
	name, peer string
	kube       *fake.Clientset
	federation *federationfake.Clientset
	clock      *testclock.FakePassiveClock
	events     *record.FakeRecorder
	indexers   []func()
	specs      map[types.UID]string
	uids       int
	// after is when the last pass wanted to look again.
	after time.Duration
	// Settings are those of the cluster, and own the ranges that it has in addition.
	Settings settings
	own      []v1alpha1.ClusterRange
}

// settings are those of the controller, and the ranges of the cluster.
type settings struct {
	Settings
	PodCIDRs, ServiceCIDRs, NodeCIDRs, ReservedCIDRs []string
}

// info returns the ClusterInfo of the cluster.
func (w *world) info() v1alpha1.ClusterInfo {
	info := v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
	add := func(use v1alpha1.ClusterRangeUse, cidrs []string) {
		for _, cidr := range cidrs {
			info.Status.Ranges = append(info.Status.Ranges, v1alpha1.ClusterRange{Use: use, CIDR: cidr, Source: v1alpha1.SourceValue})
		}
	}
	add(v1alpha1.RangeOfPods, w.Settings.PodCIDRs)
	add(v1alpha1.RangeOfServices, w.Settings.ServiceCIDRs)
	add(v1alpha1.RangeOfNodes, w.Settings.NodeCIDRs)
	add(v1alpha1.RangeReserved, w.Settings.ReservedCIDRs)
	info.Status.Ranges = append(info.Status.Ranges, w.own...)
	return info
}

func (w *world) ctx() context.Context { return context.Background() }

// newWorld makes a cluster whose networking is Tunnel with the other one.
func newWorld(t tb, name, id, peer, peerID string, of settings) *world {
	t.Helper()
	w := &world{
		t: t, name: name, peer: peer,
		kube: fake.NewClientset(), federation: federationfake.NewSimpleClientset(),
		clock: testclock.NewFakePassiveClock(time.Unix(1_900_000_000, 0)), events: record.NewFakeRecorder(100), specs: map[types.UID]string{}, Settings: of,
	}
	w.federation.PrependReactor("create", "*", w.create(w.federation.Tracker()))
	w.kube.PrependReactor("create", "*", w.create(w.kube.Tracker()))
	w.reconciler = &reconciler{
		Config: &Config{
			Kube: w.kube, Federation: w.federation, Events: w.events, Clock: w.clock, ClusterID: id, Namespace: installation,
			Networking: v1alpha1.NetworkingTunnel, Settings: of.Settings,
		},
	}
	w.infos = listers.NewClusterInfoLister(indexed(w, func() []v1alpha1.ClusterInfo { return []v1alpha1.ClusterInfo{w.info()} }))
	api := w.federation.FederationV1alpha1()
	w.clusters = listers.NewForeignClusterLister(indexed(w, func() []v1alpha1.ForeignCluster { return got(w, api.ForeignClusters().List).Items }))
	w.requests = listers.NewResourceRequestLister(indexed(w, func() []v1alpha1.ResourceRequest { return got(w, api.ResourceRequests("").List).Items }))
	w.configs = listers.NewNetworkConfigLister(indexed(w, func() []v1alpha1.NetworkConfig { return got(w, api.NetworkConfigs("").List).Items }))
	w.pools = listers.NewAddressPoolLister(indexed(w, func() []v1alpha1.AddressPool { return got(w, api.AddressPools().List).Items }))
	w.mappings = listers.NewAddressMappingLister(indexed(w, func() []v1alpha1.AddressMapping { return got(w, api.AddressMappings("").List).Items })).AddressMappings(installation)
	w.endpoints = listers.NewTunnelEndpointLister(indexed(w, func() []v1alpha1.TunnelEndpoint { return got(w, api.TunnelEndpoints("").List).Items })).TunnelEndpoints(installation)
	w.secrets = corelisters.NewSecretLister(indexed(w, func() []corev1.Secret { return got(w, w.kube.CoreV1().Secrets("").List).Items })).Secrets(installation)

	w.do(api.ForeignClusters().Create(w.ctx(), &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: peer}, Spec: v1alpha1.ForeignClusterSpec{ClusterID: peerID},
	}, createOptions))
	return w
}

func (w *world) do(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func got[L any](w *world, list func(context.Context, metav1.ListOptions) (L, error)) L {
	w.t.Helper()
	all, err := list(w.ctx(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// indexed is a cache that is filled with what a list has, when refresh is called.
func indexed[T any](w *world, list func() []T) cache.Indexer {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	w.indexers = append(w.indexers, func() {
		var all []any
		for _, item := range list() {
			all = append(all, &item)
		}
		if err := indexer.Replace(all, ""); err != nil {
			w.t.Fatal(err)
		}
	})
	return indexer
}

// create does what the API server does with a new object.
func (w *world) create(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject()
		accessor := object.(metav1.Object)
		w.uids++
		accessor.SetUID(types.UID(fmt.Sprintf("%s-%d", w.name, w.uids)))
		accessor.SetResourceVersion("1")
		accessor.SetGeneration(1)
		if mapping, ok := object.(*v1alpha1.AddressMapping); ok {
			if err := w.allocate(mapping); err != nil {
				return true, nil, err
			}
		}
		if err := tracker.Create(action.GetResource(), object, action.GetNamespace()); err != nil {
			return true, nil, err
		}
		return true, object, nil
	}
}

// allocate gives a mapping what is free, and by no chance.
func (w *world) allocate(mapping *v1alpha1.AddressMapping) error {
	pool, err := w.federation.Tracker().Get(v1alpha1.SchemeGroupVersion.WithResource("addresspools"), "", mapping.Spec.Pool)
	if err != nil {
		return err
	}
	mappings, err := w.federation.Tracker().List(v1alpha1.SchemeGroupVersion.WithResource("addressmappings"), v1alpha1.SchemeGroupVersion.WithKind("AddressMapping"), "")
	if err != nil {
		return err
	}
	var taken addresses.Set
	for _, other := range mappings.(*v1alpha1.AddressMappingList).Items {
		taken = taken.With(prefixOf(other.Spec.Mapped))
	}
	spec := pool.(*v1alpha1.AddressPool).Spec
	mapped, err := addresses.NewPool(prefixes(spec.CIDRs), prefixes(spec.Reserved)).Allocate(taken, addresses.Request{
		Range: prefixOf(mapping.Spec.CIDR + mapping.Spec.Address), Keep: mapping.Spec.CIDR != "", Chance: math.MaxUint32,
	})
	if err != nil {
		refusal := apierrors.NewForbidden(v1alpha1.Resource("addressmappings"), mapping.Name, err)
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseAddressesExhausted}}
		return refusal
	}
	if mapping.Spec.Mapped = mapped.String(); mapping.Spec.Address != "" {
		mapping.Spec.Mapped = mapped.Addr().String()
	}
	return nil
}

// prefixOf reads a range, or an address.
func prefixOf(text string) netip.Prefix {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen())
	}
	return netip.MustParsePrefix(text)
}

func prefixes(list []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// refresh fills the caches, and counts generations as the API server does.
func (w *world) refresh() {
	w.t.Helper()
	api := w.federation.FederationV1alpha1()
	for _, config := range got(w, api.NetworkConfigs("").List).Items {
		if w.changed(config.UID, config.Spec) {
			config.Generation++
			w.do(api.NetworkConfigs(config.Namespace).Update(w.ctx(), &config, metav1.UpdateOptions{}))
		}
	}
	for _, endpoint := range got(w, api.TunnelEndpoints("").List).Items {
		if w.changed(endpoint.UID, endpoint.Spec) {
			endpoint.Generation++
			w.do(api.TunnelEndpoints(endpoint.Namespace).Update(w.ctx(), &endpoint, metav1.UpdateOptions{}))
		}
	}
	for _, fill := range w.indexers {
		fill()
	}
	w.Config.Settings = w.Settings.Settings
}

func (w *world) changed(uid types.UID, spec any) bool {
	encoded, err := json.Marshal(spec)
	w.do(nil, err)
	before, known := w.specs[uid]
	w.specs[uid] = string(encoded)
	return known && before != string(encoded)
}

// pass reconciles once, and returns what was written.
func (w *world) pass() []string {
	w.t.Helper()
	w.refresh()
	w.federation.ClearActions()
	w.kube.ClearActions()
	after, err := w.reconcile(w.ctx(), cache.ObjectName{Name: w.peer})
	if err != nil {
		w.t.Fatalf("%s: %v", w.name, err)
	}
	w.after = after
	var writes []string
	for _, action := range slices.Concat(w.federation.Actions(), w.kube.Actions()) {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			writes = append(writes, verb+" "+action.GetResource().Resource)
		}
	}
	w.refresh()
	return writes
}

// peered says how the peering with the other cluster stands.
func (w *world) peered(outgoing, incoming v1alpha1.PeeringPhase, features ...string) {
	w.t.Helper()
	api := w.federation.FederationV1alpha1()
	fc, err := api.ForeignClusters().Get(w.ctx(), w.peer, metav1.GetOptions{})
	w.do(nil, err)
	fc.Spec.Outgoing, fc.Spec.Incoming = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisabled
	if fc.Status.OutgoingPeering = outgoing; outgoing != v1alpha1.PeeringNone {
		fc.Spec.Outgoing = v1alpha1.PeeringEnabled
	}
	if fc.Status.IncomingPeering = incoming; incoming != v1alpha1.PeeringNone {
		fc.Spec.Incoming = v1alpha1.PeeringEnabled
	}
	w.do(api.ForeignClusters().Update(w.ctx(), fc, metav1.UpdateOptions{}))
	for namespace, request := range map[string]*v1alpha1.ResourceRequest{
		naming.PeerNamespace(w.peer):   {ObjectMeta: metav1.ObjectMeta{Name: w.name}, Status: v1alpha1.ResourceRequestStatus{Features: features}},
		naming.TenantNamespace(w.peer): {ObjectMeta: metav1.ObjectMeta{Name: w.peer}, Spec: v1alpha1.ResourceRequestSpec{Features: features}},
	} {
		_ = api.ResourceRequests(namespace).Delete(w.ctx(), request.Name, metav1.DeleteOptions{})
		w.do(api.ResourceRequests(namespace).Create(w.ctx(), request, createOptions))
	}
}

func (w *world) fc() *v1alpha1.ForeignCluster {
	w.t.Helper()
	fc, err := w.federation.FederationV1alpha1().ForeignClusters().Get(w.ctx(), w.peer, metav1.GetOptions{})
	w.do(nil, err)
	return fc
}

// te is the tunnel, or nil.
func (w *world) te() *v1alpha1.TunnelEndpoint {
	w.t.Helper()
	endpoint, err := w.federation.FederationV1alpha1().TunnelEndpoints(installation).Get(w.ctx(), w.peer, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.do(nil, err)
	return endpoint
}

// replicate does once what the replication does between a consumer and its
// provider.
func replicate(consumer, provider *world) (written bool) {
	consumer.t.Helper()
	here, there := naming.PeerNamespace(consumer.peer), naming.TenantNamespace(provider.peer)
	own := flow(v1alpha1.NetworkConfigOfConsumer, consumer, here, provider, there)
	theirs := flow(v1alpha1.NetworkConfigOfProvider, provider, there, consumer, here)
	return own || theirs
}

// flow copies a spec there and a status back.
func flow(name string, from *world, source string, to *world, target string) bool {
	from.refresh()
	to.refresh()
	here, there := from.federation.FederationV1alpha1().NetworkConfigs(source), to.federation.FederationV1alpha1().NetworkConfigs(target)
	owned, err := here.Get(from.ctx(), name, metav1.GetOptions{})
	copied, errCopy := there.Get(to.ctx(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(errCopy):
		return false
	case apierrors.IsNotFound(err):
		to.do(nil, there.Delete(to.ctx(), name, metav1.DeleteOptions{}))
		return true
	case apierrors.IsNotFound(errCopy):
		to.do(there.Create(to.ctx(), &v1alpha1.NetworkConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: target}, Spec: owned.Spec}, createOptions))
		return true
	}
	from.do(nil, errors.Join(err, errCopy))
	if !same(owned.Spec, copied.Spec) {
		copied.Spec = owned.Spec
		to.do(there.Update(to.ctx(), copied, metav1.UpdateOptions{}))
		return true
	}
	answer := *copied.Status.DeepCopy()
	if answer.ObservedGeneration >= copied.Generation {
		answer.ObservedGeneration = owned.Generation
	}
	if same(owned.Status, answer) {
		return false
	}
	owned.Status = answer
	from.do(here.Update(from.ctx(), owned, metav1.UpdateOptions{}))
	return true
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// settle reconciles both clusters until nothing is written any more.
func settle(t tb, replicateAll func() bool, worlds ...*world) {
	t.Helper()
	for range 50 {
		busy := replicateAll()
		for _, w := range worlds {
			busy = len(w.pass()) > 0 || busy
		}
		if !busy {
			return
		}
	}
	t.Fatal("the clusters do not settle: something is written again and again")
}

var _ tb = (*testing.T)(nil)
