// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/queue"
)

// Reasons of the events of the gateway's Service.
const (
	ReasonUnreachable = "Unreachable"
	ReasonReachable   = "Reachable"
)

// GatewayNames are the options of informers that see what has the gateway's
// name, and nothing else: its Service, the EndpointSlice of it, and its Lease.
func GatewayNames(namespace string) []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.GatewayName).String()
		}),
	}
}

// GatewayPods are the options of informers that see the pods of the gateway.
func GatewayPods(namespace string) []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = labels.Set{"app.kubernetes.io/name": v1alpha1.GatewayName}.String()
		}),
	}
}

// gatewayService has the Service of the gateway lead to the active one. Several
// gateways have one key, and what is sent to one that stands by is lost.
type gatewayService struct {
	*Config
	*gateways
	leases coordinationlisters.LeaseNamespaceLister
	slices discoverylisters.EndpointSliceNamespaceLister
	// told is where the gateway was called when something was said of it last.
	// There is one worker.
	told *string
}

// NewGatewayService makes the controller of the Service's EndpointSlice.
func NewGatewayService(config *Config) (*queue.Controller[cache.ObjectName], error) {
	named := config.Gateways.Named
	leases, endpoints := named.Coordination().V1().Leases(), named.Discovery().V1().EndpointSlices()
	s := &gatewayService{
		Config:   config,
		gateways: config.Gateways.gateways(config.Namespace),
		leases:   leases.Lister().Leases(config.Namespace),
		slices:   endpoints.Lister().EndpointSlices(config.Namespace),
	}
	controller := queue.New("gateway-service", 1, s.reconcile)
	// Whatever it was, there is one Service.
	handler := controller.Handle(func(any) []cache.ObjectName {
		return []cache.ObjectName{{Namespace: config.Namespace, Name: v1alpha1.GatewayName}}
	})
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{named.Core().V1().Services().Informer(), handler},
		{endpoints.Informer(), handler},
		{leases.Informer(), unless(sameHolder, handler)},
		{config.Gateways.Nodes.Core().V1().Nodes().Informer(), unless(sameNode, handler)},
		{config.Gateways.Pods.Core().V1().Pods().Informer(), unless(samePlace, handler)},
	} {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, fmt.Errorf("watch for the Service of the gateway: %w", err)
		}
	}
	return controller, nil
}

// holder is the node of the active gateway; empty while there is none.
func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// sameHolder tells whether a Lease was renewed at most.
func sameHolder(a, b *coordinationv1.Lease) bool { return holder(a) == holder(b) }

func (s *gatewayService) reconcile(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
	endpoints, service, err := s.endpoints()
	if err != nil {
		return 0, err
	}
	slice, err := s.slices.Get(v1alpha1.GatewayName)
	if apierrors.IsNotFound(err) {
		slice, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	if slice != nil && slice.Labels[discoveryv1.LabelManagedBy] != v1alpha1.ManagedBy {
		if service == nil {
			return 0, nil
		}
		return 0, fmt.Errorf("EndpointSlice %s/%s is somebody else's: delete it, for Service %s to lead to the active gateway", slice.Namespace, slice.Name, service.Name)
	}
	if service == nil {
		return 0, s.remove(ctx, slice)
	}
	s.tell(service, endpoints)
	active, err := s.active(slice)
	if err != nil {
		return 0, err
	}
	if err := s.lead(ctx, slice, sliceOf(service, active)); !stale(err) {
		return 0, err
	}
	// The cache has not seen what was written a moment ago.
	return time.Second, nil
}

// active is the node of the active gateway. Between two of them it is the one
// that was; nil if there was none.
func (s *gatewayService) active(slice *discoveryv1.EndpointSlice) (*corev1.Node, error) {
	name := ""
	lease, err := s.leases.Get(v1alpha1.GatewayName)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		name = holder(lease)
	}
	if name == "" && slice != nil && len(slice.Endpoints) > 0 {
		name = ptr.Deref(slice.Endpoints[0].NodeName, "")
	}
	if name == "" {
		return nil, nil
	}
	node, err := s.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return node, err
}

// sliceOf is what has a Service lead to the gateway on a node; nowhere, if there
// is none.
func sliceOf(service *corev1.Service, node *corev1.Node) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: v1alpha1.GatewayName,
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service", Name: service.Name, UID: service.UID,
			}},
		},
		AddressType: discoveryv1.AddressType(familyOf(service)),
	}
	port := gatewayPort(service)
	if port == nil || node == nil {
		return slice
	}
	address := addressOf(node, corev1.NodeInternalIP, familyOf(service))
	if !address.IsValid() {
		return slice
	}
	slice.Ports = []discoveryv1.EndpointPort{{Name: &port.Name, Port: ptr.To(port.TargetPort.IntVal), Protocol: &port.Protocol}}
	slice.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{address.String()}, NodeName: &node.Name, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
	}}
	return slice
}

// lead makes the EndpointSlice the wanted one.
func (s *gatewayService) lead(ctx context.Context, existing, wanted *discoveryv1.EndpointSlice) error {
	client := s.Kube.DiscoveryV1().EndpointSlices(s.Namespace)
	switch {
	case existing == nil:
		if _, err := client.Create(ctx, wanted, createOptions); err != nil {
			return fmt.Errorf("make the EndpointSlice of Service %s/%s: %w", s.Namespace, v1alpha1.GatewayName, err)
		}
	case existing.DeletionTimestamp != nil:
	case existing.AddressType != wanted.AddressType:
		// That cannot be changed. When it is gone, another one is made.
		return s.remove(ctx, existing)
	case maps.Equal(existing.Labels, wanted.Labels) && equality.Semantic.DeepEqual(existing.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(existing.Ports, wanted.Ports) && equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints):
	default:
		changed := existing.DeepCopy()
		changed.Labels, changed.OwnerReferences = wanted.Labels, wanted.OwnerReferences
		changed.Ports, changed.Endpoints = wanted.Ports, wanted.Endpoints
		if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("have Service %s/%s lead to the active gateway: %w", s.Namespace, v1alpha1.GatewayName, err)
		}
	}
	return nil
}

// remove removes the EndpointSlice, if it is there.
func (s *gatewayService) remove(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if slice == nil || slice.DeletionTimestamp != nil {
		return nil
	}
	err := s.Kube.DiscoveryV1().EndpointSlices(s.Namespace).Delete(ctx, slice.Name, exactly(slice))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
	}
	return nil
}

// tell says by an event where the gateway is called, when that has changed, and
// when it is called nowhere.
func (s *gatewayService) tell(service *corev1.Service, endpoints []string) {
	at := strings.Join(endpoints, ", ")
	if len(s.Settings.Endpoints) > 0 || s.told != nil && *s.told == at {
		return
	}
	known := s.told != nil
	s.told = &at
	switch {
	case at == "":
		s.Events.Event(service, corev1.EventTypeWarning, ReasonUnreachable, unreachable(service))
	case known:
		s.Events.Eventf(service, corev1.EventTypeNormal, ReasonReachable, "Other clusters call the gateway at %s.", at)
	}
}
