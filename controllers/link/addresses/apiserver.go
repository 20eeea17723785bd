// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// APIServerName is the name of the controller APIServerReconciler in --controllers, logs, metrics and
// events.
const APIServerName = "api-server-address"

// APIServerReconciler allocates, for each provider, an address at which the provider's pods reach the API
// server of this cluster.
type APIServerReconciler struct {
	*Addresses
	// Address is the address and port of the API server for which addresses are allocated; remote pods reach no
	// other port. The zero value means that they do not reach the API server through tunnels.
	Address netip.AddrPort
	// Events receives events of ForeignClusters.
	Events record.EventRecorder
}

// SetupWithManager adds the controller to a manager.
func (r *APIServerReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(APIServerName).
		Watches(&v1alpha1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(kit.OfPeerNamespace),
			builder.WithPredicates(accessChanged)).
		Watches(&v1alpha1.AddressPool{}, handler.EnqueueRequestsFromMapFunc(r.all),
			builder.WithPredicates(isExternal, kit.SpecChanged())).
		Watches(&v1alpha1.ForeignCluster{}, r.forgetOwner()).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.AddressMapping{}, toOrigin(ofAPIServer))).
		WatchesRawSource(source.Kind[client.Object](r.Installation, &v1alpha1.TunnelEndpoint{},
			handler.EnqueueRequestsFromMapFunc(ofTunnel), kit.SpecChanged())).
		WithOptions(kit.Options(1)).
		Complete(r)
}

// accessChanged selects creations and deletions of virtual nodes, and updates of their access to the API server.
var accessChanged = kit.Changed(func(old, current *v1alpha1.VirtualNode) bool {
	return trust.NodeAPIAccess(old) != trust.NodeAPIAccess(current)
})

// ofTunnel maps a TunnelEndpoint to its ForeignCluster.
func ofTunnel(_ context.Context, tunnel client.Object) []reconcile.Request {
	return []reconcile.Request{kit.Request("", tunnel.GetName())}
}

// all returns the requests of the ForeignClusters that have a tunnel or an AddressMapping of the API server.
func (r *APIServerReconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	requests := r.mapped(ctx, ofAPIServer)
	// Listing from a cache fails only before the cache is synced, which causes an event for each tunnel anyway.
	tunnels, _ := r.tunnels(ctx)
	for i := range tunnels {
		requests = append(requests, kit.Request("", tunnels[i].Name))
	}
	return requests
}

// Reconcile creates or deletes the AddressMapping of the API server for one ForeignCluster.
func (r *APIServerReconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, origin{kind: ofAPIServer, key: request.NamespacedName}))
}

func (r *APIServerReconciler) reconcile(ctx context.Context, of origin) (time.Duration, error) {
	existing, err := r.mappingsOf(ctx, of)
	if err != nil {
		return 0, err
	}
	wanted, err := r.wanted(ctx, of, len(existing) > 0)
	if err != nil {
		return 0, err
	}
	return r.ensure(ctx, r.Events, existing, wanted)
}

// wanted returns the desired AddressMapping for the provider of a ForeignCluster, keyed by the name of the
// mapping. It returns none unless Address is set and the provider has a tunnel and a virtual node whose pods have
// access to the API server. If an AddressMapping exists, it also suffices that the status of a VirtualNode does not
// have the access yet: after an upgrade, running pods keep their address.
func (r *APIServerReconciler) wanted(
	ctx context.Context, of origin, exists bool,
) (map[string]*v1alpha1.AddressMapping, error) {
	if !r.Address.IsValid() {
		return nil, nil
	}
	name := of.key.Name
	tunnel, err := r.tunnel(ctx, name)
	if err != nil || tunnel == nil {
		return nil, err
	}
	nodes, err := r.virtualNodes(ctx, client.InNamespace(naming.PeerNamespace(name)))
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(nodes, func(node v1alpha1.VirtualNode) bool {
		access := trust.NodeAPIAccess(&node)
		return access == v1alpha1.APIAccessConsumer || access == "" && exists
	}) {
		return nil, nil
	}
	mapping := single(r.Namespace, of, r.ClusterID, peer{name, tunnel.Spec.ClusterID}, r.Address.Addr())
	mapping.Spec.Ports = []v1alpha1.AddressMappingPort{{Protocol: corev1.ProtocolTCP, Port: int32(r.Address.Port())}}
	return map[string]*v1alpha1.AddressMapping{mapping.Name: mapping}, nil
}
