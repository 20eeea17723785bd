// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/kit"
)

// PodsName is the name of the controller of pods in --controllers, logs, metrics and events.
const PodsName = "pod-addresses"

const (
	// podWorkers is the number of pods that are reconciled in parallel.
	podWorkers = 4
	// unknownRetry is the time after which a pod is looked up again while not all pods of a node are
	// cached. No event reports that a pod does not exist.
	unknownRetry = time.Second
)

// Pods caches and watches the pods of single nodes.
type Pods interface {
	// List returns the cached pods of a node, and reports whether all are cached. The first call starts the
	// watch, which ends when ctx is done.
	List(ctx context.Context, node string) (pods []*corev1.Pod, complete bool, err error)
	// Seen is like List, but starts no watch. It returns no pods for a node that is not watched.
	Seen(node string) (pods []*corev1.Pod, complete bool)
	// Get returns a pod of a node that is watched already; nil if it is not cached.
	Get(node, namespace, name string) *corev1.Pod
	// Synced reports whether all pods of a node are cached.
	Synced(node string) bool
	// Listen adds a function that is called with each changed pod.
	Listen(changed func(node string, pod *corev1.Pod))
}

// PodReconciler allocates addresses at which providers reach pods that run on another provider.
type PodReconciler struct {
	*Addresses
	// Pods caches the pods of virtual nodes.
	Pods Pods
	// Events receives events of NamespaceOffloadings.
	Events record.EventRecorder
}

// SetupWithManager adds the controller to a manager.
func (r *PodReconciler) SetupWithManager(manager ctrl.Manager) error {
	changed := &kit.Trigger{}
	r.Pods.Listen(func(_ string, pod *corev1.Pod) { changed.Add(kit.Request(pod.Namespace, pod.Name)) })
	return ctrl.NewControllerManagedBy(manager).Named(PodsName).
		Watches(&v1alpha1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(r.allMapped),
			builder.WithPredicates(kit.Deleted())).
		Watches(&v1alpha1.NamespaceMap{}, ofNamespaceMap(r)).
		Watches(&v1alpha1.AddressPool{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(isExternal, kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceOffloading{}, r.forgetOwner()).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.AddressMapping{}, toOrigin(ofPod))).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.TunnelEndpoint{},
			handler.EnqueueRequestsFromMapFunc(r.behindTunnel), kit.SpecChanged())).
		WatchesRawSource(changed).
		WithOptions(kit.Options(podWorkers)).
		Complete(r)
}

// allMapped returns a request for each pod with an AddressMapping. It is used when a virtual node is
// deleted, because the end of its pods causes no events.
func (r *PodReconciler) allMapped(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.mapped(ctx, ofPod)
}

// all returns a request for each cached pod of a virtual node, and for each pod with a mapping.
func (r *PodReconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	// Listing from a cache fails only before the cache is synced, which causes an event for each pod anyway.
	nodes, _ := r.virtualNodes(ctx)
	requests := r.mapped(ctx, ofPod)
	for _, pod := range r.seen(nodes) {
		requests = append(requests, kit.Request(pod.Namespace, pod.Name))
	}
	return requests
}

// behindTunnel returns a request for each pod that a tunnel affects: the pods on its provider, the
// pods with a mapping for the provider, and the pods in namespaces that are offloaded to it.
func (r *PodReconciler) behindTunnel(ctx context.Context, tunnel client.Object) []reconcile.Request {
	inPeer := client.InNamespace(naming.PeerNamespace(tunnel.GetName()))
	requests := r.mapped(ctx, ofPod, client.MatchingFields{indexPeer: tunnel.GetName()})
	// Listing from a cache fails only before the cache is synced, which causes an event for each pod anyway.
	nodes, _ := r.virtualNodes(ctx, inPeer)
	for _, pod := range r.seen(nodes) {
		requests = append(requests, kit.Request(pod.Namespace, pod.Name))
	}
	return append(requests, r.inNamespaces(ctx, r.offloaded(ctx, inPeer))...)
}

// inNamespaces returns a request for each cached pod of a virtual node in one of the namespaces.
func (r *PodReconciler) inNamespaces(ctx context.Context, names sets.Set[string]) []reconcile.Request {
	if len(names) == 0 {
		return nil
	}
	var requests []reconcile.Request
	// Listing from a cache fails only before the cache is synced, which causes an event for each pod anyway.
	nodes, _ := r.virtualNodes(ctx)
	for _, pod := range r.seen(nodes) {
		if names.Has(pod.Namespace) {
			requests = append(requests, kit.Request(pod.Namespace, pod.Name))
		}
	}
	return requests
}

// seen returns the cached pods of virtual nodes.
func (r *PodReconciler) seen(nodes []v1alpha1.VirtualNode) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range nodes {
		pods, _ := r.Pods.Seen(nodes[i].Spec.NodeName)
		all = append(all, pods...)
	}
	return all
}

// Reconcile creates the mappings by which other providers reach a pod, and deletes all other
// mappings of the pod.
func (r *PodReconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, request.NamespacedName))
}

func (r *PodReconciler) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	existing, err := r.mappingsOf(ctx, origin{kind: ofPod, key: key})
	if err != nil {
		return 0, err
	}
	clusters := sets.New[string]()
	for i := range existing {
		clusters.Insert(existing[i].Labels[v1alpha1.LabelOrigin])
	}
	pod, on, complete, err := r.find(ctx, key, clusters)
	if err != nil {
		return 0, err
	}
	if pod == nil && !complete {
		return unknownRetry, nil
	}
	wanted, err := r.wanted(ctx, pod, on)
	if err != nil {
		return 0, err
	}
	return r.ensure(ctx, r.Events, existing, wanted)
}

// find returns the pod with a key on any virtual node, and that virtual node; the younger pod if two pods have
// the key. complete is true if all pods on the virtual nodes of clusters, a set of cluster IDs, are cached.
func (r *PodReconciler) find(
	ctx context.Context, key types.NamespacedName, clusters sets.Set[string],
) (pod *corev1.Pod, on *v1alpha1.VirtualNode, complete bool, err error) {
	nodes, err := r.virtualNodes(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	complete = true
	for i := range nodes {
		node := &nodes[i]
		if !naming.IsPeerNamespace(node.Namespace) {
			continue
		}
		found, known, err := r.podOn(ctx, node, key)
		if err != nil {
			return nil, nil, false, fmt.Errorf("watching the pods of node %s: %w", node.Spec.NodeName, err)
		}
		complete = complete && (known || !clusters.Has(node.Spec.ClusterID))
		if found != nil && (pod == nil || pod.CreationTimestamp.Before(&found.CreationTimestamp)) {
			pod, on = found, node
		}
	}
	return pod, on, complete, nil
}

// podOn returns a pod of a virtual node, or nil, and reports whether all pods of the virtual node are
// cached. The controller of virtual nodes ends the watch of a virtual node that is being deleted: the
// watch is not started again, and complete is false from then on.
func (r *PodReconciler) podOn(
	ctx context.Context, node *v1alpha1.VirtualNode, key types.NamespacedName,
) (pod *corev1.Pod, complete bool, err error) {
	complete = r.Pods.Synced(node.Spec.NodeName)
	if !complete && node.DeletionTimestamp == nil {
		_, _, err = r.Pods.List(ctx, node.Spec.NodeName)
	}
	return r.Pods.Get(node.Spec.NodeName, key.Namespace, key.Name), complete, err
}

// wanted returns the mappings of a pod by their names: one for each of its addresses and each
// other provider that its namespace is offloaded to, if both providers have a tunnel.
func (r *PodReconciler) wanted(
	ctx context.Context, pod *corev1.Pod, on *v1alpha1.VirtualNode,
) (map[string]*v1alpha1.AddressMapping, error) {
	if pod == nil || podspec.Finished(pod) {
		return nil, nil
	}
	provider := naming.ForeignClusterOf(on.Namespace)
	tunnel, err := r.tunnel(ctx, provider)
	if err != nil || tunnel == nil || tunnel.Spec.ClusterID != on.Spec.ClusterID {
		return nil, err
	}
	addresses := behind(tunnel, pod.Status.PodIPs)
	if len(addresses) == 0 {
		return nil, nil
	}
	all, err := r.maps(ctx)
	if err != nil {
		return nil, err
	}
	of := origin{kind: ofPod, key: client.ObjectKeyFromObject(pod)}
	wanted := map[string]*v1alpha1.AddressMapping{}
	for i := range all {
		name := naming.ForeignClusterOf(all[i].Namespace)
		if name == provider || !offloads(&all[i], pod.Namespace) {
			continue
		}
		other, err := r.tunnel(ctx, name)
		if err != nil {
			return nil, err
		}
		if other == nil || other.Spec.ClusterID == tunnel.Spec.ClusterID {
			continue
		}
		for _, address := range addresses {
			mapping := single(r.Namespace, of, tunnel.Spec.ClusterID, peer{name, other.Spec.ClusterID}, address)
			wanted[mapping.Name] = mapping
		}
	}
	return wanted, nil
}

// behind returns the addresses among ips that this cluster reaches through a tunnel.
func behind(tunnel *v1alpha1.TunnelEndpoint, ips []corev1.PodIP) []netip.Addr {
	var found []netip.Addr
	for _, ip := range ips {
		if address, err := netip.ParseAddr(ip.IP); err == nil && contains(mappedCIDRs(tunnel), address) {
			found = append(found, address)
		}
	}
	return found
}

// mappedCIDRs returns the ranges at which this cluster reaches a peer.
func mappedCIDRs(tunnel *v1alpha1.TunnelEndpoint) []string {
	var cidrs []string
	for _, agreed := range tunnel.Spec.Remote {
		cidrs = append(cidrs, agreed.Mapped)
	}
	return cidrs
}
