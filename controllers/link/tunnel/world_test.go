// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	romeID, milanID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	installation    = "liqo"
)

// tb is the part of testing.T and of rapid.T that tests need.
type tb interface {
	kittest.T
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

var _ tb = (*testing.T)(nil)

// world is a fake cluster with one peer.
type world struct {
	*kittest.Cluster
	r          *Reconciler
	t          tb
	name, peer string
	objects    int
	keys       int
	// after is the RequeueAfter of the last reconcile.
	after time.Duration
	// Settings are the settings of the controller, and the ranges of the cluster. own are further ranges.
	// published is the last ClusterInfo that publish wrote.
	Settings  settings
	own       []v1alpha1.ClusterRange
	published []v1alpha1.ClusterRange
}

// settings are the settings of the controller, and the ranges of the cluster.
type settings struct {
	Settings
	PodCIDRs, ServiceCIDRs, NodeCIDRs, ReservedCIDRs []string
}

// ranges returns the ranges of the cluster.
func (w *world) ranges() []v1alpha1.ClusterRange {
	var ranges []v1alpha1.ClusterRange
	add := func(use v1alpha1.ClusterRangeUse, cidrs []string) {
		for _, cidr := range cidrs {
			ranges = append(ranges, v1alpha1.ClusterRange{Use: use, CIDR: cidr, Source: v1alpha1.SourceValue})
		}
	}
	add(v1alpha1.RangeOfPods, w.Settings.PodCIDRs)
	add(v1alpha1.RangeOfServices, w.Settings.ServiceCIDRs)
	add(v1alpha1.RangeOfNodes, w.Settings.NodeCIDRs)
	add(v1alpha1.RangeReserved, w.Settings.ReservedCIDRs)
	return append(ranges, w.own...)
}

// newWorld returns a cluster whose networking with the peer is Tunnel.
func newWorld(t tb, name, id, peer, peerID string, of settings) *world {
	t.Helper()
	w := &world{Cluster: kittest.New(t), t: t, name: name, peer: peer, Settings: of}
	c := interceptor.NewClient(w.Controller, interceptor.Funcs{Create: w.create, Patch: w.patch})
	w.r = &Reconciler{
		Local: &Local{Client: c, Clock: w.Clock, ClusterID: id, Namespace: installation, Settings: of.Settings,
			installation: c},
		Live: c, Events: w.Events, Networking: v1alpha1.NetworkingTunnel,
	}
	w.put(&v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}},
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer},
			Spec: v1alpha1.ForeignClusterSpec{ClusterID: peerID}})
	w.newKey()
	return w
}

// put creates objects with the fields that the API server sets.
func (w *world) put(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.objects++
		object.SetUID(types.UID(fmt.Sprintf("%s-%d", w.name, w.objects)))
		object.SetGeneration(1)
		object.SetResourceVersion("")
		if err := w.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) remove(object client.Object) {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mappings() []v1alpha1.AddressMapping {
	w.t.Helper()
	return kittest.List(w.Cluster, &v1alpha1.AddressMappingList{}).Items
}

// create sets the fields that the API server sets in a new object, and creates it.
func (w *world) create(ctx context.Context, c client.WithWatch, object client.Object,
	options ...client.CreateOption) error {
	object.SetGeneration(1)
	if mapping, ok := object.(*v1alpha1.AddressMapping); ok {
		if err := w.allocate(ctx, mapping); err != nil {
			return err
		}
	}
	return c.Create(ctx, object, options...)
}

// patch increments metadata.generation if a patch changes the spec, as the API server does.
func (w *world) patch(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
	options ...client.PatchOption) error {
	before, err := w.spec(ctx, object)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, object, patch, options...); err != nil || before == nil {
		return err
	}
	after, err := w.spec(ctx, object)
	if err != nil || same(before, after) {
		return err
	}
	object.SetGeneration(object.GetGeneration() + 1)
	return w.Update(ctx, object)
}

// spec returns the spec of a NetworkConfig or TunnelEndpoint; nil for other kinds.
func (w *world) spec(ctx context.Context, object client.Object) (any, error) {
	key := client.ObjectKeyFromObject(object)
	switch object.(type) {
	case *v1alpha1.NetworkConfig:
		config := &v1alpha1.NetworkConfig{}
		return &config.Spec, w.Get(ctx, key, config)
	case *v1alpha1.TunnelEndpoint:
		endpoint := &v1alpha1.TunnelEndpoint{}
		return &endpoint.Spec, w.Get(ctx, key, endpoint)
	}
	return nil, nil
}

// allocate sets spec.mapped of an AddressMapping, as the ledger of the API server does.
func (w *world) allocate(ctx context.Context, mapping *v1alpha1.AddressMapping) error {
	pool := &v1alpha1.AddressPool{}
	if err := w.Get(ctx, client.ObjectKey{Name: mapping.Spec.Pool}, pool); err != nil {
		return err
	}
	var taken addresses.Set
	for _, other := range w.mappings() {
		taken = taken.With(netip.MustParsePrefix(other.Spec.Mapped))
	}
	mapped, err := addresses.NewPool(prefixes(pool.Spec.CIDRs), prefixes(pool.Spec.Reserved)).Allocate(taken,
		addresses.Request{
			Range: netip.MustParsePrefix(mapping.Spec.CIDR), Keep: !mapping.Spec.Remap, Chance: math.MaxUint32,
		})
	if err != nil {
		refusal := apierrors.NewForbidden(v1alpha1.Resource("addressmappings"), mapping.Name, err)
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseAddressesExhausted}}
		return refusal
	}
	mapping.Spec.Mapped = mapped.String()
	return nil
}

func prefixes(list []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// publish writes ClusterInfo local with the ranges of the cluster.
func (w *world) publish() {
	w.t.Helper()
	w.r.Settings = w.Settings.Settings
	ranges := w.ranges()
	if same(ranges, w.published) {
		return
	}
	kittest.Change(w.Cluster, "", v1alpha1.ClusterInfoName, &v1alpha1.ClusterInfo{}, func(info *v1alpha1.ClusterInfo) {
		info.Status.Ranges = ranges
	})
	w.published = slices.Clone(ranges)
}

// pass reconciles the peer once, and returns the writes to the API server.
func (w *world) pass() []string {
	w.t.Helper()
	w.publish()
	var writes []string
	w.after, writes = w.Pass(w.r, kit.Request("", w.peer))
	return writes
}

// newKey publishes a new public key, as the gateway does.
func (w *world) newKey() {
	w.t.Helper()
	w.keys++
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %d", w.name, w.keys))
	w.publishKey(base64.StdEncoding.EncodeToString(hash[:]))
}

// publishKey sets the public key that the gateway published.
func (w *world) publishKey(key string) {
	w.t.Helper()
	published := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.WireGuardConfigMap},
		Data:       map[string]string{v1alpha1.WireGuardPublicKey: key},
	}
	if !w.Has(published.DeepCopy()) {
		w.put(published)
		return
	}
	kittest.Change(w.Cluster, installation, published.Name, &corev1.ConfigMap{},
		func(current *corev1.ConfigMap) { current.Data = published.Data })
}

// withdrawKey deletes the ConfigMap with the public key of the gateway.
func (w *world) withdrawKey() {
	w.t.Helper()
	w.remove(kittest.Read(w.Cluster, installation, v1alpha1.WireGuardConfigMap, &corev1.ConfigMap{}))
}

// peered sets the phases of both peerings, and the features of the peer.
func (w *world) peered(outgoing, incoming v1alpha1.PeeringPhase, features ...string) {
	w.t.Helper()
	w.change(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Outgoing, fc.Spec.Incoming = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisabled
		if fc.Status.OutgoingPeering = outgoing; outgoing != v1alpha1.PeeringNone {
			fc.Spec.Outgoing = v1alpha1.PeeringEnabled
		}
		if fc.Status.IncomingPeering = incoming; incoming != v1alpha1.PeeringNone {
			fc.Spec.Incoming = v1alpha1.PeeringEnabled
		}
	})
	for namespace, request := range map[string]*v1alpha1.ResourceRequest{
		naming.PeerNamespace(w.peer): {ObjectMeta: metav1.ObjectMeta{Name: w.name},
			Status: v1alpha1.ResourceRequestStatus{Features: features}},
		naming.TenantNamespace(w.peer): {ObjectMeta: metav1.ObjectMeta{Name: w.peer},
			Spec: v1alpha1.ResourceRequestSpec{Features: features}},
	} {
		request.Namespace = namespace
		if previous := request.DeepCopy(); w.Has(previous) {
			w.remove(previous)
		}
		w.put(request)
	}
}

// change changes the ForeignCluster.
func (w *world) change(change func(*v1alpha1.ForeignCluster)) {
	w.t.Helper()
	kittest.Change(w.Cluster, "", w.peer, &v1alpha1.ForeignCluster{}, change)
}

func (w *world) fc() *v1alpha1.ForeignCluster {
	w.t.Helper()
	return kittest.Read(w.Cluster, "", w.peer, &v1alpha1.ForeignCluster{})
}

// te returns the TunnelEndpoint of the peer, or nil.
func (w *world) te() *v1alpha1.TunnelEndpoint {
	w.t.Helper()
	endpoint := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: w.peer}}
	if !w.Has(endpoint) {
		return nil
	}
	return endpoint
}

// changeTunnel changes the status of the TunnelEndpoint, as the gateway does.
func (w *world) changeTunnel(change func(*v1alpha1.TunnelEndpoint)) {
	w.t.Helper()
	kittest.Change(w.Cluster, installation, w.peer, &v1alpha1.TunnelEndpoint{}, change)
}

// replicate copies the NetworkConfigs between a consumer and its provider, as package link/replication does,
// and reports whether it wrote anything.
func replicate(consumer, provider *world) (written bool) {
	consumer.t.Helper()
	peer, tenant := naming.PeerNamespace(consumer.peer), naming.TenantNamespace(provider.peer)
	ofConsumer := flow(v1alpha1.NetworkConfigOfConsumer, consumer, peer, provider, tenant)
	ofProvider := flow(v1alpha1.NetworkConfigOfProvider, provider, tenant, consumer, peer)
	return ofConsumer || ofProvider
}

// flow copies the spec of a NetworkConfig to a cluster, and its status back.
func flow(name string, from *world, source string, to *world, target string) bool {
	owned, copied := &v1alpha1.NetworkConfig{}, &v1alpha1.NetworkConfig{}
	err := from.Get(from.t.Context(), client.ObjectKey{Namespace: source, Name: name}, owned)
	errCopy := to.Get(to.t.Context(), client.ObjectKey{Namespace: target, Name: name}, copied)
	switch {
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(errCopy):
		return false
	case apierrors.IsNotFound(err):
		to.remove(copied)
		return true
	case apierrors.IsNotFound(errCopy):
		to.put(&v1alpha1.NetworkConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: target}, Spec: owned.Spec})
		return true
	}
	if err := errors.Join(err, errCopy); err != nil {
		from.t.Fatal(err)
	}
	if !same(owned.Spec, copied.Spec) {
		copied.Spec = owned.Spec
		copied.Generation++
		if err := to.Update(to.t.Context(), copied); err != nil {
			to.t.Fatal(err)
		}
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
	if err := from.Status().Update(from.t.Context(), owned); err != nil {
		from.t.Fatal(err)
	}
	return true
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// settle reconciles clusters until nothing is written any more.
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
	t.Fatal("the clusters do not settle: each pass writes")
}
