// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// Config is the configuration that all steps of an incoming peering share.
type Config struct {
	// Client reads the cache of the manager. Live reads the API server, because pods and volumes in
	// remote namespaces are not cached.
	Client client.Client
	Live   client.Reader
	// Events receives events of ForeignClusters.
	Events record.EventRecorder
	// Mode selects whether this cluster issues certificates or tokens to its consumers.
	Mode identity.Mode
	// Account is the ServiceAccount of the controllers. The steps grant it access to tenant namespaces.
	Account types.NamespacedName
	// InvitationNamespace is the namespace with the ServiceAccounts that the tokens of invitations
	// are issued for.
	InvitationNamespace string
}

// Steps returns the steps of an incoming peering in their order.
func (c *Config) Steps() []foreigncluster.Step {
	return []foreigncluster.Step{&withdrawalStep{c}, &teardownStep{c}, &tenantStep{c}, &negotiationStep{c}}
}

// warn emits an event of type Warning for a ForeignCluster.
func (c *Config) warn(fc *v1alpha1.ForeignCluster, reason, message string) {
	c.Events.Event(fc, corev1.EventTypeWarning, reason, message)
}

// identities returns the IdentityRequests that a ForeignCluster owns.
func (c *Config) identities(ctx context.Context, fc *v1alpha1.ForeignCluster) ([]*v1alpha1.IdentityRequest, error) {
	var all v1alpha1.IdentityRequestList
	if err := c.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	var owned []*v1alpha1.IdentityRequest
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], fc) {
			owned = append(owned, &all.Items[i])
		}
	}
	return owned, nil
}

// negotiation returns the resource requests and resource offers in the tenant namespace of a foreign
// cluster.
func (c *Config) negotiation(
	ctx context.Context, foreignCluster string,
) ([]v1alpha1.ResourceRequest, []v1alpha1.ResourceOffer, error) {
	namespace := client.InNamespace(naming.TenantNamespace(foreignCluster))
	var requests v1alpha1.ResourceRequestList
	if err := c.Client.List(ctx, &requests, namespace); err != nil {
		return nil, nil, err
	}
	var offers v1alpha1.ResourceOfferList
	if err := c.Client.List(ctx, &offers, namespace); err != nil {
		return nil, nil, err
	}
	return requests.Items, offers.Items, nil
}
