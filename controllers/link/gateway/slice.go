// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// sliceOf returns the desired EndpointSlice of the gateway's Service. Its endpoint is the gateway on node. It
// has no endpoint if node is nil or has no internal address of the Service's IP family.
func sliceOf(service *corev1.Service, node *corev1.Node) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: v1alpha1.GatewayName,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: v1alpha1.ManagedBy,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service", Name: service.Name, UID: service.UID,
			}},
		},
		AddressType: discoveryv1.AddressType(familyOf(service)),
	}
	port := portOf(service)
	if port == nil || node == nil {
		return slice
	}
	address := addressOf(node, corev1.NodeInternalIP, familyOf(service))
	if !address.IsValid() {
		return slice
	}
	slice.Ports = []discoveryv1.EndpointPort{{
		Name: &port.Name, Port: ptr.To(port.TargetPort.IntVal), Protocol: &port.Protocol,
	}}
	slice.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{address.String()}, NodeName: &node.Name,
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
	}}
	return slice
}

// ensure creates or updates the EndpointSlice. It uses update, because RBAC does not allow patch.
func (r *Reconciler) ensure(ctx context.Context, existing, wanted *discoveryv1.EndpointSlice) error {
	switch {
	case existing == nil:
		if err := r.Client.Create(ctx, wanted); err != nil {
			return fmt.Errorf("creating the EndpointSlice of Service %s/%s: %w", wanted.Namespace, v1alpha1.GatewayName, err)
		}
	case existing.DeletionTimestamp != nil:
	case existing.AddressType != wanted.AddressType:
		// The address type is immutable. The deletion triggers the reconcile that creates the EndpointSlice
		// with the new type.
		return r.delete(ctx, existing)
	default:
		changed := existing.DeepCopy()
		if !kit.UpdateEndpointSlice(changed, wanted) {
			return nil
		}
		if err := r.Client.Update(ctx, changed); err != nil {
			return fmt.Errorf("updating the EndpointSlice of Service %s/%s: %w", wanted.Namespace, v1alpha1.GatewayName, err)
		}
	}
	return nil
}

// delete deletes the EndpointSlice, if there is one.
func (r *Reconciler) delete(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if slice == nil || slice.DeletionTimestamp != nil {
		return nil
	}
	return kit.Delete(ctx, r.Client, slice)
}
