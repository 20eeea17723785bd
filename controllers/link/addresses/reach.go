// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
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
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// ReachName is the name of the controller ReachReconciler in --controllers, logs, metrics and events.
const ReachName = "tunnel-reach"

// ReasonReachExceeded of an event on a ForeignCluster means that its peer is permitted to reach more than 10000
// addresses of pods, the maximum of a TunnelReach, so the peer cannot reach all of them. Offload fewer pods, or set
// spec.reach of the ForeignCluster to All.
const ReasonReachExceeded = "ReachExceeded"

// reachSettle is the delay of a reconcile after a pod or an EndpointSlice changed, so that it handles further changes,
// too. It limits the writes of each TunnelReach to one per second.
const reachSettle = time.Second

// ReachReconciler writes the TunnelReach of each peer whose TunnelEndpoint has reach Offloaded: the addresses
// of the pods in the peer's remote namespaces and, in the namespaces that are offloaded to the peer, of the
// local pods that are endpoints of reflected Services, including exported ones. Its requests name
// ForeignClusters.
type ReachReconciler struct {
	*Addresses
	// Services caches the Services of offloaded namespaces. It must call Changes and Complete.
	Services Services
	// Events receives events of ForeignClusters.
	Events record.EventRecorder

	changed kit.Trigger
	// watched are the namespaces whose Services are cached. It needs no lock, because there is one worker.
	watched sets.Set[string]
}

// SetupWithManager adds the controller to a manager.
func (r *ReachReconciler) SetupWithManager(manager ctrl.Manager) error {
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{kit.Request("", object.GetName())}
	})
	ofPeer := handler.EnqueueRequestsFromMapFunc(kit.OfPeerNamespace)
	return ctrl.NewControllerManagedBy(manager).Named(ReachName).
		Watches(&v1alpha1.VirtualNode{}, ofPeer, builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceMap{}, ofPeer, builder.WithPredicates(kit.SpecChanged())).
		Watches(&corev1.Namespace{}, kit.EnqueueAfter(reachSettle, r.ofNamespace),
			builder.WithPredicates(kit.Changed(roleChanged))).
		Watches(&corev1.Pod{}, kit.EnqueueAfter(reachSettle, r.ofNamespace),
			builder.WithPredicates(kit.Changed(podAddressesChanged))).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.TunnelReach{}, byName)).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.TunnelEndpoint{}, byName, kit.SpecChanged())).
		WatchesRawSource(&r.changed).
		WithOptions(kit.Options(1)).
		Complete(r)
}

// roleChanged reports whether an update makes a namespace the remote namespace of a consumer, or ends that.
func roleChanged(old, current *corev1.Namespace) bool {
	return remoteNamespaceOf(old) != remoteNamespaceOf(current)
}

// podAddressesChanged reports whether a pod got or lost addresses.
func podAddressesChanged(old, current *corev1.Pod) bool {
	return !slices.Equal(podAddresses(old), podAddresses(current))
}

// remoteNamespaceOf returns the name of the ForeignCluster for whose consumer a namespace is a remote
// namespace; empty for any other namespace.
func remoteNamespaceOf(namespace *corev1.Namespace) string {
	if namespace.Labels[v1alpha1.LabelRole] != v1alpha1.RoleRemoteNamespace {
		return ""
	}
	return namespace.Labels[v1alpha1.LabelForeignCluster]
}

// podAddresses returns the addresses of a pod. It returns none for a pod that has finished or uses the network
// of its node, because another pod or the node has its addresses.
func podAddresses(pod *corev1.Pod) []netip.Addr {
	if pod.Spec.HostNetwork || podspec.Finished(pod) {
		return nil
	}
	var found []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			found = append(found, address)
		}
	}
	return found
}

// ofNamespace maps a namespace, or an object in it, to the peers that may reach pods in it.
func (r *ReachReconciler) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	name := object.GetNamespace()
	if name == "" {
		name = object.GetName()
	}
	// Reading from a cache fails only before the cache is synced, which causes an event for each object anyway.
	tunnels, _ := r.tunnels(ctx)
	tunnels = slices.DeleteFunc(tunnels, func(t v1alpha1.TunnelEndpoint) bool {
		return t.Spec.Reach != v1alpha1.ReachOffloaded
	})
	if len(tunnels) == 0 {
		return nil
	}
	namespace := &corev1.Namespace{}
	_ = r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	var requests []reconcile.Request
	for i := range tunnels {
		peer := tunnels[i].Name
		inPeer := client.InNamespace(naming.PeerNamespace(peer))
		if remoteNamespaceOf(namespace) == peer || r.offloaded(ctx, inPeer).Has(name) {
			requests = append(requests, kit.Request("", peer))
		}
	}
	return requests
}

// Changes returns the handler that the field Services must call for changed Services and EndpointSlices.
func (r *ReachReconciler) Changes() toolscache.ResourceEventHandler {
	changed := func(object any) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if object, ok := object.(client.Object); ok {
			for _, request := range r.ofNamespace(context.Background(), object) {
				r.changed.AddAfter(request, reachSettle)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, current any) { changed(current) }, DeleteFunc: changed,
	}
}

// Complete enqueues the peers to which a namespace is offloaded. The field Services must call it once all Services and
// EndpointSlices of the namespace are cached.
func (r *ReachReconciler) Complete(namespace string) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	for _, request := range r.ofNamespace(context.Background(), object) {
		r.changed.Add(request)
	}
}

// Reconcile ensures the TunnelReach of a peer while its TunnelEndpoint has reach Offloaded, and deletes it otherwise.
func (r *ReachReconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, request.Name))
}

func (r *ReachReconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	if err := r.forgetServices(ctx); err != nil {
		return 0, err
	}
	existing, err := r.existingReach(ctx, name)
	if err != nil || existing != nil && existing.DeletionTimestamp != nil {
		return 0, err
	}
	tunnel, err := r.tunnel(ctx, name)
	if err != nil {
		return 0, err
	}
	wanted := tunnel != nil && tunnel.Spec.Reach == v1alpha1.ReachOffloaded
	if existing != nil && (!wanted || existing.Spec.ClusterID != tunnel.Spec.ClusterID) {
		// The deletion enqueues the peer. The cluster ID is immutable.
		return 0, kit.Delete(ctx, r.Client, existing)
	}
	if !wanted {
		return 0, nil
	}
	addresses, possible, err := r.reachable(ctx, tunnel)
	if err != nil {
		return 0, err
	}
	if possible != nil {
		// Complete enqueues the peer once the Services are cached. Until then, no address is added because of a
		// Service, and an address is removed once no pod in possible has it, because a pod of another namespace
		// may receive it.
		if existing == nil {
			return 0, nil
		}
		addresses = addresses.Union(listed(existing).Intersection(possible))
	}
	spec := v1alpha1.TunnelReachSpec{
		ClusterID: tunnel.Spec.ClusterID, Addresses: r.limited(ctx, name, existing, addresses),
	}
	if existing == nil {
		return r.createReach(ctx, name, spec)
	}
	if slices.Equal(existing.Spec.Addresses, spec.Addresses) {
		return 0, nil
	}
	changed := existing.DeepCopy()
	changed.Spec = spec
	_, err = kit.Commit(ctx, r.Client, existing, changed)
	return 0, err
}

// existingReach returns the TunnelReach of a peer; nil if there is none.
func (r *ReachReconciler) existingReach(ctx context.Context, name string) (*v1alpha1.TunnelReach, error) {
	existing := &v1alpha1.TunnelReach{}
	err := r.Installation.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, existing)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading tunnel reach %s: %w", name, err)
	}
	return existing, nil
}

func (r *ReachReconciler) createReach(
	ctx context.Context, name string, spec v1alpha1.TunnelReachSpec,
) (time.Duration, error) {
	reach := &v1alpha1.TunnelReach{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: name,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: name},
		},
		Spec: spec,
	}
	err := r.Client.Create(ctx, reach)
	if apierrors.IsAlreadyExists(err) {
		return staleRetry, nil
	}
	if err != nil {
		return 0, fmt.Errorf("creating tunnel reach %s: %w", name, err)
	}
	return 0, nil
}

// limited returns the first v1alpha1.MaxTunnelReachAddresses addresses, sorted, as texts. If it omits any, it emits
// an event, unless the existing TunnelReach already has that many.
func (r *ReachReconciler) limited(
	ctx context.Context, name string, existing *v1alpha1.TunnelReach, addresses sets.Set[netip.Addr],
) []string {
	sorted := addresses.UnsortedList()
	slices.SortFunc(sorted, netip.Addr.Compare)
	if len(sorted) > v1alpha1.MaxTunnelReachAddresses {
		fc := &v1alpha1.ForeignCluster{}
		if (existing == nil || len(existing.Spec.Addresses) < v1alpha1.MaxTunnelReachAddresses) &&
			r.Client.Get(ctx, client.ObjectKey{Name: name}, fc) == nil {
			r.Events.Eventf(fc, corev1.EventTypeWarning, ReasonReachExceeded,
				"The peer is permitted to reach %d addresses of pods, but can reach only %d of them, the limit of a TunnelReach: "+
					"offload fewer pods, or set spec.reach to %s.",
				len(sorted), v1alpha1.MaxTunnelReachAddresses, v1alpha1.ReachAll)
		}
		sorted = sorted[:v1alpha1.MaxTunnelReachAddresses]
	}
	var texts []string
	for _, address := range sorted {
		texts = append(texts, address.String())
	}
	return texts
}

// listed returns the addresses in a TunnelReach.
func listed(reach *v1alpha1.TunnelReach) sets.Set[netip.Addr] {
	found := sets.New[netip.Addr]()
	for _, text := range reach.Spec.Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			found.Insert(address)
		}
	}
	return found
}

// reachable returns the addresses of the local pods that the peer of a tunnel may reach. possible has the
// addresses of the pods in the namespaces whose Services are not cached yet, which may be endpoints of those
// Services; it is nil if all are cached.
func (r *ReachReconciler) reachable(
	ctx context.Context, tunnel *v1alpha1.TunnelEndpoint,
) (found, possible sets.Set[netip.Addr], err error) {
	nodes, err := r.virtualNodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	virtual := sets.New[string]()
	for i := range nodes {
		virtual.Insert(nodes[i].Spec.NodeName)
	}
	found = sets.New[netip.Addr]()
	var remote corev1.NamespaceList
	if err := r.Client.List(ctx, &remote, client.UnsafeDisableDeepCopy, client.MatchingLabels{
		v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: tunnel.Name,
	}); err != nil {
		return nil, nil, fmt.Errorf("listing remote namespaces: %w", err)
	}
	for i := range remote.Items {
		pods, err := r.podsIn(ctx, remote.Items[i].Name, tunnel, virtual)
		if err != nil {
			return nil, nil, err
		}
		found = found.Union(pods)
	}
	maps, err := r.maps(ctx, client.InNamespace(naming.PeerNamespace(tunnel.Name)))
	if err != nil {
		return nil, nil, err
	}
	for i := range maps {
		to, err := r.provider(ctx, &maps[i])
		if err != nil {
			return nil, nil, err
		}
		if to == nil {
			continue
		}
		for namespace := range namesOf(&maps[i]) {
			endpoints, known, err := r.reflectedEndpoints(ctx, namespace, to)
			if err != nil {
				return nil, nil, err
			}
			// Endpoints that are not pods of the namespace are ignored, because an EndpointSlice could have the
			// address of a pod in another namespace.
			pods, err := r.podsIn(ctx, namespace, tunnel, virtual)
			if err != nil {
				return nil, nil, err
			}
			if known {
				found = found.Union(pods.Intersection(endpoints))
				continue
			}
			if possible == nil {
				possible = sets.New[netip.Addr]()
			}
			possible = possible.Union(pods)
		}
	}
	return found, possible, nil
}

// podsIn returns the addresses of the pods in a namespace that are in the local ranges of a tunnel. It omits pods on
// virtual nodes, whose addresses the providers report: a local pod of another namespace may have one of them.
func (r *ReachReconciler) podsIn(
	ctx context.Context, namespace string, tunnel *v1alpha1.TunnelEndpoint, virtual sets.Set[string],
) (sets.Set[netip.Addr], error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods in namespace %s: %w", namespace, err)
	}
	var local []string
	for _, mapping := range tunnel.Spec.Local {
		local = append(local, mapping.CIDR)
	}
	found := sets.New[netip.Addr]()
	for i := range pods.Items {
		if virtual.Has(pods.Items[i].Spec.NodeName) {
			continue
		}
		for _, address := range podAddresses(&pods.Items[i]) {
			if contains(local, address) {
				found.Insert(address)
			}
		}
	}
	return found, nil
}

// reflectedEndpoints returns the addresses in the EndpointSlices of a namespace that are reflected to a provider. known
// is false while the Services of the namespace are not cached.
func (r *ReachReconciler) reflectedEndpoints(
	ctx context.Context, namespace string, to *provider,
) (found sets.Set[netip.Addr], known bool, err error) {
	watch, err := r.Services.Of(ctx, namespace)
	if err != nil {
		return nil, false, fmt.Errorf("watching the Services of namespace %s: %w", namespace, err)
	}
	if r.watched == nil {
		r.watched = sets.New[string]()
	}
	r.watched.Insert(namespace)
	if watch == nil {
		return nil, false, nil
	}
	all, err := watch.Slices.List(labels.Everything())
	if err != nil {
		return nil, false, err
	}
	found = sets.New[netip.Addr]()
	for _, slice := range all {
		service, err := watch.Services.Get(slice.Labels[discoveryv1.LabelServiceName])
		if err != nil || !translate.ReflectsEndpoints(to.services, to.slices, service, slice) {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					found.Insert(address)
				}
			}
		}
	}
	return found, true, nil
}

// forgetServices ends the watches of namespaces that are offloaded to no peer with reach Offloaded.
func (r *ReachReconciler) forgetServices(ctx context.Context) error {
	tunnels, err := r.tunnels(ctx)
	if err != nil {
		return err
	}
	needed := sets.New[string]()
	for i := range tunnels {
		if tunnels[i].Spec.Reach == v1alpha1.ReachOffloaded {
			needed = needed.Union(r.offloaded(ctx, client.InNamespace(naming.PeerNamespace(tunnels[i].Name))))
		}
	}
	for namespace := range r.watched.Difference(needed) {
		r.Services.Forget(namespace)
		r.watched.Delete(namespace)
	}
	return nil
}
