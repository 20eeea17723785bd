// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	consumer "liqo.io/federation/controllers/consumer/peering"
	"liqo.io/federation/controllers/link/foreigncluster"
	provider "liqo.io/federation/controllers/provider/peering"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/fakes"
	"liqo.io/federation/test/integration/framework"
)

// peeringConsumer is a consumer whose provider is the same cluster, the environment's. It reaches
// the provider through a proxy. Consumer and provider share one API, so only the consumer's
// controllers run, and the test performs the provider's part.
type peeringConsumer struct {
	*framework.Environment
	federation versioned.Interface
	proxy      *framework.Proxy
	peers      *remote.Peers
	// name is the name of the ForeignCluster, and request the name of the IdentityRequest.
	name, request, token string
	// outgoing and incoming configure the controller of ForeignClusters for the two directions.
	outgoing consumer.Config
	incoming provider.Config
	clock    clock.PassiveClock
}

// newPeeringConsumer runs the controllers of a new consumer, and accepts an invitation of the
// environment's cluster.
func newPeeringConsumer(t *testing.T, name string) *peeringConsumer {
	t.Helper()
	b := makePeeringConsumer(t, name)
	b.run(t)
	b.invite(t, framework.ProxyURL)
	return b
}

func makePeeringConsumer(t *testing.T, name string) *peeringConsumer {
	t.Helper()
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml", "rbac-tenant.yaml"), "apply", "-f", "-")
	_, federation := clients(t, env)
	account := types.NamespacedName{Namespace: framework.Namespace, Name: controllerManager}
	return &peeringConsumer{
		Environment: env, federation: federation, proxy: env.StartProxy(t), name: name, clock: clock.RealClock{},
		outgoing: consumer.Config{
			ClusterID: thatID, ClusterName: "consumer", InvitationNamespace: framework.InvitationNamespace,
			IdentityLifetime: time.Hour, Account: account,
		},
		incoming: provider.Config{
			Mode: identity.ModeCertificate, Account: account, InvitationNamespace: framework.InvitationNamespace,
		},
	}
}

// run runs the controller of ForeignClusters in this process until the test ends. All its
// connections to the provider use the proxy.
func (b *peeringConsumer) run(t *testing.T) {
	t.Helper()
	b.peers = remote.NewPeersWith(func(identity *remote.Identity) (*remote.Clients, error) {
		config, err := remote.Config(identity, remote.Options{Dial: b.proxy.Dial})
		if err != nil {
			return nil, err
		}
		return remote.NewClients(config)
	})
	runManager(t, b.Admin, func(manager ctrl.Manager) error {
		invitations, err := consumer.InvitationCache(manager, framework.InvitationNamespace)
		if err != nil {
			return err
		}
		outgoing, incoming := b.outgoing, b.incoming
		outgoing.Client, outgoing.Live, outgoing.Invitations = manager.GetClient(), manager.GetAPIReader(), invitations
		outgoing.Events, outgoing.Peers, outgoing.Volumes = &record.FakeRecorder{}, b.peers, fakes.NoVolumes{}
		incoming.Client, incoming.Live, incoming.Events = manager.GetClient(), manager.GetAPIReader(), &record.FakeRecorder{}
		return (&foreigncluster.Reconciler{
			Client: manager.GetClient(), Invitations: invitations, Events: &record.FakeRecorder{}, Clock: b.clock,
			Peers:    b.peers,
			Incoming: incoming.Steps(), Outgoing: outgoing.Steps(),
		}).SetupWithManager(manager)
	})
}

// invite creates an invitation, and accepts it with proxy as spec.proxyURL.
func (b *peeringConsumer) invite(t *testing.T, proxy string) {
	t.Helper()
	tokens := b.federation.FederationV1alpha1().PeeringTokens()
	token, err := tokens.Create(t.Context(), &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: b.name}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	invitation, err := tokens.CreateInvitation(t.Context(), b.name, &v1alpha1.Invitation{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.request, b.token = naming.InvitationAccount(token.UID), invitation.Status.Peering.Spec.Token
	_, err = b.federation.FederationV1alpha1().ForeignClusters().CreatePeer(t.Context(), b.name,
		&v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{
			ClusterID: thisID, Server: framework.AdvertisedServer, CABundle: b.AdvertisedAuthority(), ProxyURL: proxy,
			Token: b.token,
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.cleanUp(t, b.name)
}

// cleanUp deletes a ForeignCluster and its finalizers when the test ends.
func (b *peeringConsumer) cleanUp(t *testing.T, name string) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := b.federation.FederationV1alpha1().ForeignClusters().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		_, err := b.federation.FederationV1alpha1().ForeignClusters().Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// grant performs the provider's part of an identity request: it creates the tenant namespace and
// binds subject to the roles of peers. answer sets the status of the request.
func (b *peeringConsumer) grant(t *testing.T, subject rbacv1.Subject,
	answer func(request *v1alpha1.IdentityRequest, status *v1alpha1.IdentityRequestStatus)) {
	t.Helper()
	requests := b.federation.FederationV1alpha1().IdentityRequests()
	var request *v1alpha1.IdentityRequest
	until(t, "the request for an identity", func(ctx context.Context) (bool, error) {
		var err error
		request, err = requests.Get(ctx, b.request, metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	tenant := b.tenant()
	if _, err := b.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.bind(t, "federation-tenant", subject)
	request.Status.TenantNamespace, request.Status.ClusterID = tenant, thisID
	meta.SetStatusCondition(&request.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted"})
	answer(request, &request.Status)
	if _, err := requests.UpdateStatus(t.Context(), request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (b *peeringConsumer) tenant() string { return naming.TenantNamespace(b.name) }

func (b *peeringConsumer) bind(t *testing.T, role string, subjects ...rbacv1.Subject) {
	t.Helper()
	if _, err := b.Kube.RbacV1().RoleBindings(b.tenant()).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// certificate issues a certificate as the identity, which has been valid for age and is valid for
// life in total.
func (b *peeringConsumer) certificate(t *testing.T, age, life time.Duration) {
	t.Helper()
	uid, _ := naming.InvitationOfAccount(b.request)
	b.grant(t, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: string(uid)},
		func(request *v1alpha1.IdentityRequest, status *v1alpha1.IdentityRequestStatus) {
			status.Certificate = b.Certify(t, request.Spec.Request, time.Now().Add(-age), life)
		})
}

// account issues tokens of a ServiceAccount as the identity.
func (b *peeringConsumer) account(t *testing.T) {
	t.Helper()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: b.tenant(), Name: "federation-peer"}
	b.grant(t, account, func(_ *v1alpha1.IdentityRequest, status *v1alpha1.IdentityRequestStatus) {
		b.bind(t, "federation-tenant-token", account,
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: framework.InvitationNamespace, Name: b.request})
		if _, err := b.Kube.CoreV1().ServiceAccounts(b.tenant()).Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account.Name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		status.ServiceAccountName = account.Name
	})
}

// await waits until the condition Authenticated meets is. Each poll changes the ForeignCluster, so
// that its controller does not wait for the end of a backoff.
func (b *peeringConsumer) await(t *testing.T, what string, is func(*metav1.Condition) bool) {
	t.Helper()
	var last *metav1.Condition
	polls := 0
	defer func() {
		if t.Failed() {
			t.Logf("the condition is %+v", last)
		}
	}()
	until(t, what, func(ctx context.Context) (bool, error) {
		polls++
		fc, err := b.federation.FederationV1alpha1().ForeignClusters().Patch(ctx, b.name, types.MergePatchType,
			encode(fields{"metadata": fields{"annotations": fields{"test/polls": fmt.Sprint(polls)}}}), metav1.PatchOptions{})
		if err != nil {
			return false, err
		}
		if strings.Contains(fmt.Sprintf("%+v", fc), b.token) {
			t.Fatal("the ForeignCluster shows the token")
		}
		last = meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionAuthenticated)
		return last != nil && is(last), nil
	})
}

func established(condition *metav1.Condition) bool {
	return condition.Status == metav1.ConditionTrue && condition.Reason == foreigncluster.ReasonIdentityIssued
}

// listRequests lists ResourceRequests of the provider with the current identity. It fails if the
// identity is not accepted.
func (b *peeringConsumer) listRequests(ctx context.Context) error {
	peer, ok := b.peers.Get(b.name)
	if !ok {
		return fmt.Errorf("no connection")
	}
	_, err := peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace).List(ctx, metav1.ListOptions{})
	return err
}
