// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// remoteTimeout bounds what one pass waits for a provider.
const remoteTimeout = 10 * time.Second

func (c *Config) outgoing() []step {
	informers := c.FederationInformers.Federation().V1alpha1()
	requests := func(namespace string) ([]*v1alpha1.ResourceRequest, error) {
		return informers.ResourceRequests().Lister().ResourceRequests(namespace).List(labels.Everything())
	}
	virtualNodes := func(namespace string) ([]*v1alpha1.VirtualNode, error) {
		return informers.VirtualNodes().Lister().VirtualNodes(namespace).List(labels.Everything())
	}
	getInvitation := c.InvitationInformers.Core().V1().Secrets().Lister().Secrets(c.Namespace).Get
	deleteInvitation := func(ctx context.Context, invitation *corev1.Secret) error {
		return c.Kube.CoreV1().Secrets(c.Namespace).Delete(ctx, invitation.Name, exactly(invitation))
	}
	peer := c.namespaceStep()
	peer.aspect, peer.role, peer.name = outgoingAspect, v1alpha1.RolePeer, naming.PeerNamespace
	peer.status = func(s *v1alpha1.ForeignClusterStatus) *string { return &s.PeerNamespace }
	peer.bindings = func(*v1alpha1.ForeignCluster) ([]*rbacv1.RoleBinding, error) {
		return []*rbacv1.RoleBinding{roleBinding(peerManagerRole,
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.ServiceAccount})}, nil
	}
	return []step{
		&outgoingTeardown{
			volumes:          c.Volumes,
			getNamespace:     c.getNamespace,
			deleteNamespace:  c.deleteNamespace,
			virtualNodes:     virtualNodes,
			requests:         requests,
			withdraw:         c.withdraw,
			disconnect:       c.Peers.Remove,
			getInvitation:    getInvitation,
			deleteInvitation: deleteInvitation,
			isOver: func(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error) {
				live, err := c.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, fc.Name, getOptions)
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return err == nil && live.UID == fc.UID && !kit.OutgoingEnabled(live), err
			},
			warn: c.warn,
		},
		peer,
		&identityStep{
			clusterID:   c.ClusterID,
			clusterName: c.ClusterName,
			proxy:       c.ControlProxy,
			getIdentity: c.getIdentity,
			createIdentity: func(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
				return c.Kube.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, createOptions)
			},
			updateIdentity: func(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
				return c.Kube.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, updateOptions)
			},
			getInvitation:    getInvitation,
			deleteInvitation: deleteInvitation,
			request:          c.requestIdentity,
			token:            c.requestToken,
			renew:            c.renewIdentity,
			connect:          c.Peers.Set,
		},
		&probeStep{probe: c.probe},
		&negotiationStep{
			requests: requests,
			offers: func(namespace string) ([]*v1alpha1.ResourceOffer, error) {
				return informers.ResourceOffers().Lister().ResourceOffers(namespace).List(labels.Everything())
			},
			virtualNodes: virtualNodes,
		},
	}
}

func (c *Config) getIdentity(ctx context.Context, namespace string) (*corev1.Secret, error) {
	return c.Kube.CoreV1().Secrets(namespace).Get(ctx, remote.SecretName, getOptions)
}

// requestIdentity asks the provider with the token of an invitation.
func (c *Config) requestIdentity(ctx context.Context, fc *v1alpha1.ForeignCluster, token string, request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
	identity, err := c.ControlProxy.invitedIdentity(fc, token)
	if err != nil {
		return nil, err
	}
	clients, err := c.Peers.Connect(identity)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	return clients.Federation.FederationV1alpha1().IdentityRequests().Create(ctx, request, createOptions)
}

// requestToken asks the provider for a token for as long as it gives one.
func (c *Config) requestToken(ctx context.Context, with *remote.Identity, namespace, account string) (string, error) {
	clients, err := c.Peers.Connect(with)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(quiet(ctx), remoteTimeout)
	defer cancel()
	answer, err := clients.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(c.IdentityLifetime.Seconds()))},
	}, createOptions)
	if err != nil {
		return "", err
	}
	if _, _, err := remote.TokenTimes(answer.Status.Token); err != nil {
		return "", fmt.Errorf("the provider's token cannot be used: %w", err)
	}
	return answer.Status.Token, nil
}

// renewIdentity asks the provider for a certificate for another key.
func (c *Config) renewIdentity(ctx context.Context, foreignCluster string, request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
	peer, ok := c.Peers.Get(foreignCluster)
	if !ok {
		return nil, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	return peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace).RenewIdentity(ctx, c.ClusterName, request, createOptions)
}

// quiet keeps client-go from logging bodies: these hold tokens.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

var errNotConnected = errors.New("there is no connection yet")

// probe asks for our request at the provider, which is there or not.
func (c *Config) probe(ctx context.Context, foreignCluster string) error {
	peer, ok := c.Peers.Get(foreignCluster)
	if !ok {
		return errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	_, err := peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace).Get(ctx, c.ClusterName, getOptions)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// withdraw tells the provider that the peering is over, if it ever knew us.
func (c *Config) withdraw(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error) {
	secret, err := c.getIdentity(ctx, naming.PeerNamespace(fc.Name))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	identity, err := remote.FromSecret(secret)
	if errors.Is(err, remote.ErrIncomplete) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := c.Peers.Set(ctx, fc.Name, identity); err != nil {
		return false, err
	}
	peer, ok := c.Peers.Get(fc.Name)
	if !ok {
		return false, errors.New("the connection was closed")
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	return withdrawAt(ctx, peer, c.ClusterName)
}
