// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// remoteTimeout bounds one request to a provider.
const remoteTimeout = 10 * time.Second

var errNotConnected = errors.New("this cluster has not connected to the provider yet")

// quiet returns a context without a logger, so that client-go does not log response bodies, which
// contain tokens.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// requestIdentity creates an IdentityRequest at the provider with the token of an invitation. If the
// provider has an IdentityRequest with the same spec already, it returns that, with its status.
func (c *Config) requestIdentity(
	ctx context.Context, fc *v1alpha1.ForeignCluster, token string, request *v1alpha1.IdentityRequest,
) (*v1alpha1.IdentityRequest, error) {
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
	return clients.Federation.FederationV1alpha1().IdentityRequests().Create(ctx, request, metav1.CreateOptions{})
}

// requestToken requests a token for a ServiceAccount in the tenant namespace on the provider. It
// authenticates with an identity or with the token of an invitation. It fails, too, if the lifetime
// of the token cannot be read.
func (c *Config) requestToken(
	ctx context.Context, with *remote.Identity, namespace, account string,
) (string, error) {
	clients, err := c.Peers.Connect(with)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(quiet(ctx), remoteTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(c.IdentityLifetime.Seconds()))},
	}
	answer, err := clients.Kube.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if _, _, err := remote.TokenTimes(answer.Status.Token); err != nil {
		return "", fmt.Errorf("reading the lifetime of the provider's token: %w", err)
	}
	return answer.Status.Token, nil
}

// requestRenewal requests a certificate for another key, and authenticates with the current identity.
// It fails with errNotConnected if no connection to the provider is open.
func (c *Config) requestRenewal(
	ctx context.Context, foreignCluster string, request *v1alpha1.IdentityRequest,
) (*v1alpha1.IdentityRequest, error) {
	peer, ok := c.Peers.Get(foreignCluster)
	if !ok {
		return nil, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	return peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace).
		RenewIdentity(ctx, c.ClusterName, request, metav1.CreateOptions{})
}

// withdraw sets spec.withdrawn of the ResourceRequest named consumer, which is the name of this cluster, on the
// provider. It reports whether the provider has finished its teardown: it has set the phase Withdrawn in the status,
// has no tenant namespace any more, or rejects the identity.
func withdraw(ctx context.Context, peer *remote.Peer, consumer string) (bool, error) {
	client := peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace)
	request, err := client.Get(ctx, consumer, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		request = &v1alpha1.ResourceRequest{Spec: v1alpha1.ResourceRequestSpec{Withdrawn: true}}
		request.Name = consumer
		_, err = client.Create(ctx, request, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return remote.Rejected(err), ignoreRejected(err)
	}
	if err != nil {
		return remote.Rejected(err), ignoreRejected(err)
	}
	if !request.Spec.Withdrawn {
		request.Spec.Withdrawn = true
		_, err = client.Update(ctx, request, metav1.UpdateOptions{})
		return remote.Rejected(err), ignoreRejected(err)
	}
	return request.Status.Phase == v1alpha1.NegotiationWithdrawn, nil
}

func ignoreRejected(err error) error {
	if remote.Rejected(err) {
		return nil
	}
	return err
}
