// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

// Peers holds the connections of this cluster to its providers. remote.Peers implements it.
type Peers interface {
	// Set opens a connection to a foreign cluster with an identity, and closes an earlier connection.
	// The connection stays open until ctx ends or Remove is called.
	Set(ctx context.Context, foreignCluster string, identity *remote.Identity) error
	// Connect returns clients that authenticate with an identity or with the token of an
	// invitation. They belong to no connection.
	Connect(identity *remote.Identity) (*remote.Clients, error)
	// Get returns the connection to a foreign cluster, and whether there is one.
	Get(foreignCluster string) (*remote.Peer, bool)
	// Remove closes the connection to a foreign cluster, if there is one.
	Remove(foreignCluster string)
}

// Config is the configuration that all steps of an outgoing peering share.
type Config struct {
	// Client reads the cache of the manager. Live reads the API server, because Secrets with
	// identities are not cached.
	Client client.Client
	Live   client.Reader
	// Invitations reads a cache of the Secrets with invitations.
	Invitations client.Reader
	// Events receives events of ForeignClusters.
	Events record.EventRecorder
	Peers  Peers
	// Volumes lists the volumes whose data providers store for this cluster, and moves or deletes that data when a
	// peering ends.
	Volumes Volumes
	// ClusterID and ClusterName are the ID and the name of this cluster.
	ClusterID, ClusterName string
	// IdentityLifetime is the lifetime of the ServiceAccount tokens that this cluster requests from
	// providers.
	IdentityLifetime time.Duration
	// ControlProxy connects to providers whose spec.mode is InBand.
	ControlProxy ControlProxy
	// InvitationNamespace is the namespace of the Secrets with invitations.
	InvitationNamespace string
	// Account is the ServiceAccount of the controllers. The steps grant it access to Secrets and
	// workloads in peer namespaces.
	Account types.NamespacedName
}

// Steps returns the steps of an outgoing peering in their order.
func (c *Config) Steps() []foreigncluster.Step {
	return []foreigncluster.Step{
		&teardownStep{Config: c}, &namespaceStep{c}, &identityStep{c}, &probeStep{c}, &negotiationStep{c},
	}
}

// InvitationCache adds a cache to the manager that contains the Secrets with invitations in their
// namespace, and no other Secrets.
func InvitationCache(manager ctrl.Manager, namespace string) (cache.Cache, error) {
	return kit.NewCache(manager, map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{namespace: {}},
			Field:      fields.OneTermEqualSelector("type", v1alpha1.SecretTypeInvitation),
		},
	})
}

// warn emits an event of type Warning for a ForeignCluster.
func (c *Config) warn(fc *v1alpha1.ForeignCluster, reason, message string) {
	c.Events.Event(fc, corev1.EventTypeWarning, reason, message)
}

// invitationSecret returns the Secret that spec.invitationSecretName names. It fails with NotFound if
// the Secret does not exist or is not of type federation.liqo.io/invitation.
func (c *Config) invitationSecret(ctx context.Context, fc *v1alpha1.ForeignCluster) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: c.InvitationNamespace, Name: fc.Spec.InvitationSecretName}
	return secret, c.Invitations.Get(ctx, key, secret)
}

// requests returns the resource requests in a peer namespace.
func (c *Config) requests(ctx context.Context, namespace string) ([]v1alpha1.ResourceRequest, error) {
	var list v1alpha1.ResourceRequestList
	err := c.Client.List(ctx, &list, client.InNamespace(namespace))
	return list.Items, err
}

// virtualNodes returns the virtual nodes in a peer namespace.
func (c *Config) virtualNodes(ctx context.Context, namespace string) ([]v1alpha1.VirtualNode, error) {
	var list v1alpha1.VirtualNodeList
	err := c.Client.List(ctx, &list, client.InNamespace(namespace))
	return list.Items, err
}
