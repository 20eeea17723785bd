// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateway finds the endpoints at which peers reach the gateway, and writes the EndpointSlice of
// the gateway's Service, so that the Service leads only to the active gateway. All gateways have the same
// key, but a standby gateway drops the packets that it receives.
package gateway

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "gateway-service"

// Reasons of events on the gateway's Service.
const (
	// ReasonUnreachable means that the Service has no address at which peers can reach the gateway. See
	// docs/network-reference.md#the-gateways-service.
	ReasonUnreachable = "Unreachable"
	// ReasonReachable means that the addresses at which peers can reach the gateway changed.
	ReasonReachable = "Reachable"
)

// Reconciler ensures the EndpointSlice of the gateway's Service, with the node of the active gateway.
type Reconciler struct {
	Client client.Client
	// Finder finds the gateway's Service, and the endpoints at which peers reach the gateway through it.
	Finder *Finder
	// Events receives events of the Service.
	Events record.EventRecorder
	// EndpointsConfigured is true if an administrator configured the endpoints of the gateway. Those of the
	// Service are unused then, and their changes cause no events.
	EndpointsConfigured bool

	// reported lists the endpoints that the previous reconcile found, separated by commas; nil before the first
	// one. It needs no lock, because there is one worker.
	reported *string
}

// SetupWithManager adds the controller to a manager. installation caches the installation namespace.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager, installation cache.Cache) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{kit.Request(r.Finder.Namespace, v1alpha1.GatewayName)}
	})
	builder := ctrl.NewControllerManagedBy(manager).Named(Name).
		WatchesRawSource(source.Kind[client.Object](installation, &discoveryv1.EndpointSlice{}, one)).
		WatchesRawSource(source.Kind[client.Object](installation, &coordinationv1.Lease{}, one, kit.Changed(holderChanged))).
		WithOptions(kit.Options(1))
	for _, source := range Sources(manager, installation, one) {
		builder = builder.WatchesRawSource(source)
	}
	return builder.Complete(r)
}

// holderOf returns the node of the active gateway; empty while there is none.
func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// holderChanged reports whether another gateway acquired the Lease. It ignores renewals.
func holderChanged(old, current *coordinationv1.Lease) bool {
	return holderOf(old) != holderOf(current)
}

// Reconcile creates, changes or deletes the EndpointSlice.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	endpoints, service, err := r.Finder.Find(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	slice := &discoveryv1.EndpointSlice{}
	if err := r.Finder.Installation.Get(ctx, request.NamespacedName, slice); apierrors.IsNotFound(err) {
		slice = nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if slice != nil && slice.Labels[discoveryv1.LabelManagedBy] != v1alpha1.ManagedBy {
		if service == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf(
			"EndpointSlice %s has another owner: delete it, so that Service %s leads to the active gateway",
			request.NamespacedName, service.Name)
	}
	if service == nil {
		return kit.Result(0, r.delete(ctx, slice))
	}
	r.recordEndpoints(service, endpoints)
	active, err := r.active(ctx, slice)
	if err != nil {
		return ctrl.Result{}, err
	}
	return kit.CreateResult(0, r.ensure(ctx, slice, sliceOf(service, active)))
}

// active returns the node of the active gateway. If no gateway is active, it returns the node of the last active one,
// which the existing EndpointSlice, slice, has. It returns nil if slice has none either, or if the Node does not exist.
func (r *Reconciler) active(ctx context.Context, slice *discoveryv1.EndpointSlice) (*corev1.Node, error) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: r.Finder.Namespace, Name: v1alpha1.GatewayName}
	if err := r.Finder.Installation.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	name := holderOf(lease)
	if name == "" && slice != nil && len(slice.Endpoints) > 0 {
		name = ptr.Deref(slice.Endpoints[0].NodeName, "")
	}
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	if err := r.Finder.Nodes.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return node, nil
}

// recordEndpoints emits an event if the endpoints changed since the previous reconcile: a Warning if the
// Service has none, also in the first reconcile, otherwise a Normal event.
func (r *Reconciler) recordEndpoints(service *corev1.Service, endpoints []string) {
	current := strings.Join(endpoints, ", ")
	if r.EndpointsConfigured || r.reported != nil && *r.reported == current {
		return
	}
	isFirst := r.reported == nil
	r.reported = &current
	switch {
	case current == "":
		r.Events.Event(service, corev1.EventTypeWarning, ReasonUnreachable, Unreachable(service))
	case !isFirst:
		r.Events.Eventf(service, corev1.EventTypeNormal, ReasonReachable, "Peers reach the gateway at %s.", current)
	}
}
