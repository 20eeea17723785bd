// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// EndpointsName is the name of the controller EndpointReconciler in --controllers, logs, metrics and
// events.
const EndpointsName = "endpoint-addresses"

// ReasonTooManyPorts of an event on a NamespaceOffloading means that an endpoint that is not a pod has more than 32
// ports, the maximum of an AddressMapping. Split the Service.
const ReasonTooManyPorts = "TooManyPorts"

const (
	// endpointWorkers is the number of namespaces that are reconciled in parallel.
	endpointWorkers = 4
	// endpointsSettle is the delay of a reconcile after a Service or its endpoints changed, so that it handles further
	// changes, too.
	endpointsSettle = 200 * time.Millisecond
)

// Services caches and watches the Services and EndpointSlices of single namespaces.
type Services interface {
	// Of returns the Services and EndpointSlices of a namespace; nil while not all are cached. The first
	// call starts the watch, which ends when ctx is done.
	Of(ctx context.Context, namespace string) (*watches.NamespaceServices, error)
	// Forget ends the watch of a namespace.
	Forget(namespace string)
}

// EndpointReconciler allocates addresses for endpoints of Services that are not pods. Pods on the providers
// to which the namespace is offloaded reach the endpoints at these addresses.
type EndpointReconciler struct {
	*Addresses
	// Services caches the Services of offloaded namespaces. It must call Changes and Complete.
	Services Services
	// Events receives events of NamespaceOffloadings.
	Events record.EventRecorder
	// Refused are CIDRs in addition to those of this cluster. Endpoints in them get no address, so peers cannot
	// reach them.
	Refused []netip.Prefix

	changed kit.Trigger
}

// SetupWithManager adds the controller to a manager.
func (r *EndpointReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(EndpointsName).
		Watches(&v1alpha1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(r.ofVirtualNode),
			builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceMap{}, ofNamespaceMap(r)).
		// The address of an endpoint may be an address of a new node, or in a new range of this cluster.
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allMapped), builder.WithPredicates(kit.Created())).
		Watches(&v1alpha1.ClusterInfo{}, handler.EnqueueRequestsFromMapFunc(r.allMapped),
			builder.WithPredicates(clusterinfo.RangesChanged())).
		Watches(&v1alpha1.AddressPool{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(isExternal, kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceOffloading{}, r.forgetOwner()).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.AddressMapping{}, toOrigin(ofEndpoints))).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.TunnelEndpoint{},
			handler.EnqueueRequestsFromMapFunc(r.ofTunnel), kit.SpecChanged())).
		WatchesRawSource(&r.changed).
		WithOptions(kit.Options(endpointWorkers)).
		Complete(r)
}

// ofVirtualNode maps a virtual node to the namespaces that are offloaded to its provider or have a mapping for
// the provider, because their mappings depend on the reflection policy in the virtual node.
func (r *EndpointReconciler) ofVirtualNode(ctx context.Context, node client.Object) []reconcile.Request {
	return r.ofProvider(ctx, naming.ForeignClusterOf(node.GetNamespace()))
}

// ofTunnel maps a tunnel to the namespaces that are offloaded to its peer or have a mapping for the peer.
func (r *EndpointReconciler) ofTunnel(ctx context.Context, tunnel client.Object) []reconcile.Request {
	return r.ofProvider(ctx, tunnel.GetName())
}

func (r *EndpointReconciler) ofProvider(ctx context.Context, name string) []reconcile.Request {
	requests := requestsTo(r.offloaded(ctx, client.InNamespace(naming.PeerNamespace(name))))
	return append(requests, r.mapped(ctx, ofEndpoints, client.MatchingFields{indexPeer: name})...)
}

// allMapped returns the requests of the namespaces with a mapping of an endpoint.
func (r *EndpointReconciler) allMapped(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.mapped(ctx, ofEndpoints)
}

// all returns the requests of the offloaded namespaces, and of those with a mapping.
func (r *EndpointReconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return append(requestsTo(r.offloaded(ctx)), r.mapped(ctx, ofEndpoints)...)
}

// inNamespaces returns the requests of namespaces.
func (r *EndpointReconciler) inNamespaces(_ context.Context, names sets.Set[string]) []reconcile.Request {
	return requestsTo(names)
}

// Reconcile creates the AddressMappings for the endpoints of a namespace that are not pods, and deletes all
// other AddressMappings for endpoints of the namespace.
func (r *EndpointReconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, origin{kind: ofEndpoints, key: request.NamespacedName}))
}

func (r *EndpointReconciler) reconcile(ctx context.Context, of origin) (time.Duration, error) {
	existing, err := r.mappingsOf(ctx, of)
	if err != nil {
		return 0, err
	}
	wanted, complete, err := r.wanted(ctx, of)
	if err != nil || !complete {
		// Complete enqueues the namespace once its Services are cached.
		return 0, err
	}
	return r.ensure(ctx, r.Events, existing, wanted)
}

// wanted returns the desired AddressMappings of a namespace by their names: one for each endpoint that is
// not a pod and each provider, with the ports of the Services that are reflected to the provider. complete
// is false while the Services are not cached.
func (r *EndpointReconciler) wanted(
	ctx context.Context, of origin,
) (wanted map[string]*v1alpha1.AddressMapping, complete bool, err error) {
	namespace := of.key.Name
	providers, err := r.providers(ctx, namespace)
	if err != nil {
		return nil, false, err
	}
	if len(providers) == 0 {
		r.Services.Forget(namespace)
		return nil, true, nil
	}
	watch, err := r.Services.Of(ctx, namespace)
	if err != nil || watch == nil {
		return nil, false, err
	}
	outside, err := r.outsideEndpoints(ctx, watch)
	if err != nil {
		return nil, false, err
	}
	wanted = map[string]*v1alpha1.AddressMapping{}
	for _, provider := range providers {
		for address, ports := range reflectedPorts(outside, provider) {
			mapping := single(r.Namespace, of, r.ClusterID, provider.peer, address)
			if mapping.Spec.Ports = inOrder(ports); len(mapping.Spec.Ports) > v1alpha1.MaxAddressMappingPorts {
				r.report(ctx, r.Events, of, ReasonTooManyPorts, fmt.Sprintf(
					"Endpoint %s is not a pod and has more than %d ports, so peers cannot reach it.",
					address, v1alpha1.MaxAddressMappingPorts))
				continue
			}
			wanted[mapping.Name] = mapping
		}
	}
	return wanted, true, nil
}

// provider is a provider to which a namespace is offloaded and to which this cluster has a tunnel.
type provider struct {
	peer
	// services and slices are the provider's reflection policies for Services and EndpointSlices.
	services, slices translate.Policy
}

// providers returns the providers to which a namespace is offloaded and to which this cluster has a tunnel.
func (r *EndpointReconciler) providers(ctx context.Context, namespace string) ([]provider, error) {
	all, err := r.maps(ctx)
	if err != nil {
		return nil, err
	}
	var found []provider
	for i := range all {
		if !offloads(&all[i], namespace) {
			continue
		}
		provider, err := r.provider(ctx, &all[i])
		if err != nil {
			return nil, err
		}
		if provider != nil {
			found = append(found, *provider)
		}
	}
	return found, nil
}

// provider returns the provider of a NamespaceMap; nil if this cluster has no tunnel to it or no virtual node for it.
func (a *Addresses) provider(ctx context.Context, m *v1alpha1.NamespaceMap) (*provider, error) {
	name := naming.ForeignClusterOf(m.Namespace)
	tunnel, err := a.tunnel(ctx, name)
	if err != nil || tunnel == nil {
		return nil, err
	}
	nodes, err := a.virtualNodes(ctx, client.InNamespace(m.Namespace))
	if err != nil {
		return nil, err
	}
	node := reflection.DecidingVirtualNode(kit.Pointers(nodes), tunnel.Spec.ClusterID)
	if node == nil {
		return nil, nil
	}
	return &provider{
		peer:     peer{name, tunnel.Spec.ClusterID},
		services: translate.PolicyOf(&node.Spec.Reflection, corev1.Resource("services"), tunnel.Spec.ClusterID),
		slices:   translate.PolicyOf(&node.Spec.Reflection, discoveryv1.Resource("endpointslices"), tunnel.Spec.ClusterID),
	}, nil
}

// outsideSlice is an EndpointSlice with endpoints that are not pods, and its Service.
type outsideSlice struct {
	slice     *discoveryv1.EndpointSlice
	service   *corev1.Service
	addresses []netip.Addr
}

// outsideEndpoints returns the EndpointSlices of a namespace that belong to an existing Service and have
// endpoints that are not pods.
func (r *EndpointReconciler) outsideEndpoints(
	ctx context.Context, watch *watches.NamespaceServices,
) ([]outsideSlice, error) {
	all, err := watch.Slices.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	local, err := r.local(ctx)
	if err != nil {
		return nil, err
	}
	var found []outsideSlice
	for _, slice := range all {
		addresses, err := local.outsiders(ctx, slice)
		if err != nil {
			return nil, err
		}
		if len(addresses) == 0 {
			continue
		}
		// An EndpointSlice without its Service is unused. The creation of the Service enqueues the namespace.
		if service, err := watch.Services.Get(slice.Labels[discoveryv1.LabelServiceName]); err == nil {
			found = append(found, outsideSlice{slice, service, addresses})
		}
	}
	return found, nil
}

// reflectedPorts returns, for each endpoint that is not a pod, its ports in the EndpointSlices that are
// reflected to a provider.
func reflectedPorts(outside []outsideSlice, to provider) map[netip.Addr]sets.Set[v1alpha1.AddressMappingPort] {
	ports := map[netip.Addr]sets.Set[v1alpha1.AddressMappingPort]{}
	for _, o := range outside {
		if !translate.ReflectsEndpoints(to.services, to.slices, o.service, o.slice) {
			continue
		}
		for _, port := range o.slice.Ports {
			if port.Port == nil || port.Protocol == nil {
				continue
			}
			for _, address := range o.addresses {
				if ports[address] == nil {
					ports[address] = sets.New[v1alpha1.AddressMappingPort]()
				}
				ports[address].Insert(v1alpha1.AddressMappingPort{Protocol: *port.Protocol, Port: *port.Port})
			}
		}
	}
	return ports
}

// inOrder returns ports sorted by protocol and number.
func inOrder(ports sets.Set[v1alpha1.AddressMappingPort]) []v1alpha1.AddressMappingPort {
	return slices.SortedFunc(maps.Keys(ports), func(a, b v1alpha1.AddressMappingPort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
}
