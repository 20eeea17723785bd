// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto/x509/pkix"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

const (
	peeringUID = "0b6c1f9e-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	romeID     = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID    = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
)

var now = kittest.Epoch

func peerName() pkix.Name {
	return pkix.Name{CommonName: peeringUID, Organization: []string{v1alpha1.PeerGroup}}
}

func milan() *v1alpha1.ForeignCluster {
	fc := kittest.ForeignCluster("milan", milanID, v1alpha1.PeeringEnabled, v1alpha1.PeeringDisabled)
	fc.Spec.Server, fc.Spec.InvitationSecretName = "https://10.1.0.1:6443", "invitation-milan"
	return fc
}

// passAt returns the state of a reconcile of fc that began at a time.
func passAt(fc *v1alpha1.ForeignCluster, at time.Time) *foreigncluster.Pass {
	return &foreigncluster.Pass{ForeignCluster: fc, Now: at}
}

// answerFunc returns the provider's response to an IdentityRequest.
type answerFunc func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error)

// issueFunc returns the provider's response to a request for a token of a ServiceAccount.
type issueFunc func(with *remote.Identity, namespace, account string) (string, error)

// consumer is the fake cluster rome, which is the consumer of the provider milan.
type consumer struct {
	*kittest.Cluster
	*Config
	t *testing.T

	// answer and issue return the responses of the provider.
	answer answerFunc
	issue  issueFunc
	// remote is the federation API of the provider. If fails is not nil, every request to the
	// provider fails with it.
	remote *federationfake.Clientset
	fails  error
	// requests are the IdentityRequests that the provider received.
	requests []*v1alpha1.IdentityRequest
	// connected is the identity of the last call of Set; nil before the first one.
	connected *remote.Identity
	// stored are the volumes that StoredBy returns.
	stored []v1alpha1.PlannedVolume
	// done lists, in their order, writes to the API server, withdrawals at the provider, calls of
	// Remove, and the reasons of emitted Warnings.
	done []string
}

func newConsumer(t *testing.T, objects ...client.Object) *consumer {
	t.Helper()
	c := &consumer{Cluster: kittest.New(t, objects...), t: t}
	c.remote = federationfake.NewSimpleClientset()
	fakes.React(c.remote, "*", "*", c.react)
	c.Fault = func(write kittest.Write, done bool) error {
		if done {
			c.done = append(c.done, write.String())
		}
		return nil
	}
	c.answer = func(request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		request.Status = v1alpha1.IdentityRequestStatus{
			Certificate: kittest.Certificate(t, request.Spec.Request, peerName(), false),
			ClusterID:   milanID, TenantNamespace: "liqo-tenant-rome",
		}
		return request, nil
	}
	account := types.NamespacedName{Namespace: "liqo", Name: "federation-controller-manager"}
	c.Config = &Config{
		Client: c.Controller, Live: c.Cluster, Invitations: c.Cluster, Events: kittest.Reasons{List: &c.done},
		Peers: &connections{Peers: remote.NewPeersWith(c.connect), of: c}, Volumes: c,
		ClusterID: romeID, ClusterName: "rome", IdentityLifetime: 24 * time.Hour,
		InvitationNamespace: "liqo-invitations", Account: account,
	}
	return c
}

// connections implements Peers with connections to the fake provider.
type connections struct {
	*remote.Peers
	of *consumer
}

func (c *connections) Set(ctx context.Context, foreignCluster string, identity *remote.Identity) error {
	c.of.connected = identity
	return c.Peers.Set(ctx, foreignCluster, identity)
}

func (c *connections) Remove(foreignCluster string) {
	c.of.done = append(c.of.done, "disconnect")
	c.Peers.Remove(foreignCluster)
}

// connect returns fake clients of the provider that authenticate with an identity.
func (c *consumer) connect(identity *remote.Identity) (*remote.Clients, error) {
	kube := &kubefake.Clientset{}
	kube.AddReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		token, err := c.issue(identity, create.Namespace, create.Name)
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: token}}, err
	})
	return &remote.Clients{Kube: kube, Federation: c.remote}, nil
}

// react handles requests to the fake provider. It passes requests for ResourceRequests to the tracker
// of the fake clientset, and answers IdentityRequests with c.answer.
func (c *consumer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if c.fails != nil {
		return true, nil, c.fails
	}
	create, ok := action.(clienttesting.CreateActionImpl)
	if ok && (create.Resource.Resource == "identityrequests" || create.Subresource == "identity") {
		request := create.Object.(*v1alpha1.IdentityRequest)
		c.requests = append(c.requests, request.DeepCopy())
		answer, err := c.answer(request.DeepCopy())
		return true, answer, err
	}
	if action.GetVerb() == "get" {
		c.done = append(c.done, "withdraw")
	}
	return false, nil, nil
}

// StoredBy implements Volumes.
func (c *consumer) StoredBy(context.Context, *v1alpha1.ForeignCluster) ([]v1alpha1.PlannedVolume, error) {
	return c.stored, nil
}

// ReleaseAll implements Volumes, and appends the policy to c.done.
func (c *consumer) ReleaseAll(_ context.Context, _ *v1alpha1.ForeignCluster, policy v1alpha1.UnoffloadPolicy) error {
	c.done = append(c.done, "release "+string(policy))
	return nil
}

// Obstacles implements Volumes, and returns none.
func (c *consumer) Obstacles(string, string) []string { return nil }

// identify runs identityStep.
func (c *consumer) identify(p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	return (&identityStep{c.Config}).Reconcile(c.t.Context(), p)
}

// secret returns the Secret of the identity; nil if there is none.
func (c *consumer) secret() *corev1.Secret {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: remote.SecretName}}
	if !c.Has(secret) {
		return nil
	}
	return secret
}

// invitation returns the Secret of the invitation; nil if there is none.
func (c *consumer) invitation() *corev1.Secret {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-invitations", Name: "invitation-milan"}}
	if !c.Has(secret) {
		return nil
	}
	return secret
}

// invite replaces the Secret of the invitation, or deletes it if secret is nil.
func (c *consumer) invite(secret *corev1.Secret) {
	c.t.Helper()
	if old := c.invitation(); old != nil {
		c.Remove(old)
	}
	if secret == nil {
		return
	}
	if err := c.Create(c.t.Context(), secret); err != nil {
		c.t.Fatal(err)
	}
}
