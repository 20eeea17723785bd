// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

func peerNamespace() *corev1.Namespace {
	return kittest.PeeringNamespace("liqo-peer-milan", v1alpha1.RolePeer, "milan", "test/stays")
}

func virtualNode() *v1alpha1.VirtualNode {
	return kittest.VirtualNode("milan", milanID)
}

func resourceRequest(withdrawn bool) *v1alpha1.ResourceRequest {
	return &v1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "rome"},
		Spec:       v1alpha1.ResourceRequestSpec{Withdrawn: withdrawn},
	}
}

// identitySecret returns the Secret with a valid identity at the provider.
func identitySecret(t *testing.T) *corev1.Secret {
	t.Helper()
	key, request, err := newKey(peeringUID)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: remote.SecretName},
		Type:       v1alpha1.SecretTypeIdentity,
		Data:       map[string][]byte{remote.KeyPrivateKey: key, remote.KeyRequest: request},
	}
	return withIdentity(secret, &remote.Identity{
		Server: milan().Spec.Server, PrivateKey: key, Namespace: "liqo-tenant-rome",
		Certificate: kittest.Certificate(t, request, peerName(), false),
	})
}

// finished sets the phase Withdrawn of the resource request on the provider.
func (c *consumer) finished() {
	c.t.Helper()
	request := resourceRequest(true)
	request.Namespace, request.Status.Phase = "liqo-tenant-rome", v1alpha1.NegotiationWithdrawn
	tracker := c.remote.Tracker()
	requests := v1alpha1.SchemeGroupVersion.WithResource("resourcerequests")
	err := tracker.Update(requests, request, request.Namespace)
	if apierrors.IsNotFound(err) {
		err = tracker.Create(requests, request, request.Namespace)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestNextInvitationIsNotDeletedInsteadOfTheUnusedOne(t *testing.T) {
	fc := milan()
	fc.ResourceVersion, fc.Spec.Outgoing = "68", v1alpha1.PeeringDisabled
	fc.Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
	c := newConsumer(t, fc.DeepCopy(), invitationSecret("unused"))
	teardown := &teardownStep{Config: c.Config}
	// The second reconcile reads a cache without the writes of the first one.
	for range 2 {
		if _, err := teardown.Reconcile(t.Context(), passAt(fc.DeepCopy(), now)); err != nil {
			t.Fatal(err)
		}
		c.invite(invitationSecret("next"))
	}
	if diff := cmp.Diff([]string{"disconnect", "delete Secret invitation-milan", "disconnect"}, c.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

// A ForeignCluster is deleted and created again with another invitation, while the cache still has the
// deleted ForeignCluster.
func TestInvitationOfTheNextForeignClusterStays(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		cached := milan()
		cached.DeletionTimestamp = &metav1.Time{Time: now}
		stored := cached.DeepCopy()
		if replaced {
			stored.UID, stored.DeletionTimestamp = "next", nil
		}
		c := newConsumer(t, stored, invitationSecret("x"))
		if _, err := (&teardownStep{Config: c.Config}).Reconcile(t.Context(), passAt(cached, now)); err != nil {
			t.Fatal(err)
		}
		if deleted := slices.Contains(c.done, "delete Secret invitation-milan"); deleted == replaced {
			t.Errorf("the ForeignCluster is replaced: %t, its invitation is deleted: %t", replaced, deleted)
		}
	}
}

func TestOutgoingPeeringIsRemovedInOrder(t *testing.T) {
	c := newConsumer(t, peerNamespace(), virtualNode(), resourceRequest(false), identitySecret(t))
	fc := milan()
	fc.Spec.Outgoing = v1alpha1.PeeringDisabled
	withdraw := func() {
		kittest.Change(c.Cluster, "liqo-peer-milan", "rome", &v1alpha1.ResourceRequest{},
			func(r *v1alpha1.ResourceRequest) { r.Spec.Withdrawn = true })
	}
	leave := []string{"withdraw", "disconnect", "delete Namespace liqo-peer-milan"}
	for _, stage := range []struct {
		name   string
		before func()
		done   []string
		phase  v1alpha1.PeeringPhase
	}{
		{"reports it first", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits for the virtual nodes", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits for the local withdrawal", func() { c.Remove(virtualNode()) }, nil, v1alpha1.PeeringDisconnecting},
		{"withdraws the request at the provider", withdraw, []string{"withdraw"}, v1alpha1.PeeringDisconnecting},
		{"deletes the rest when the provider has finished", c.finished, leave, v1alpha1.PeeringDisconnecting},
		{"waits for the namespace", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"ends", func() { c.Remove(peerNamespace()) }, []string{"disconnect"}, v1alpha1.PeeringNone},
	} {
		t.Run(stage.name, func(t *testing.T) {
			stage.before()
			c.done = nil
			out, err := (&teardownStep{Config: c.Config}).Reconcile(t.Context(), passAt(fc, now))
			if err != nil || !out.Stop {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			if diff := cmp.Diff(stage.done, c.done); diff != "" || fc.Status.OutgoingPeering != stage.phase {
				t.Errorf("phase %s (-want +done):\n%s", fc.Status.OutgoingPeering, diff)
			}
		})
	}
}

func TestRevokedIdentityIsReportedUntilThePeeringEnded(t *testing.T) {
	for _, reason := range []string{foreigncluster.ReasonIdentityRevoked, foreigncluster.ReasonIdentityIssued} {
		fc := milan()
		foreigncluster.Authentication.Set(fc, v1alpha1.PeeringDenied, reason, "")
		fc.Spec.Outgoing = v1alpha1.PeeringDisabled
		c := newConsumer(t, fc, peerNamespace(), virtualNode())
		reconciler := &foreigncluster.Reconciler{
			Client: c.Controller, Events: c.Config.Events, Clock: c.Clock, Peers: c.Peers, Outgoing: c.Steps(),
		}
		for range 2 {
			if _, err := reconciler.Reconcile(t.Context(), kit.Request("", "milan")); err != nil {
				t.Fatal(err)
			}
			stored := kittest.Read(c.Cluster, "", "milan", &v1alpha1.ForeignCluster{})
			_, revoked := identity.RevokedSince(stored)
			if revoked != (reason == foreigncluster.ReasonIdentityRevoked) ||
				stored.Status.OutgoingPeering != v1alpha1.PeeringDisconnecting {
				t.Errorf("after %s the status is %+v", reason, stored.Status)
			}
		}
	}
}

func TestUnreachableProviderIsAwaitedUntilTheDeadline(t *testing.T) {
	c := newConsumer(t, peerNamespace(), identitySecret(t))
	c.fails = errors.New("connection refused")
	fc := milan()
	fc.Spec.Outgoing = v1alpha1.PeeringDisabled
	foreigncluster.Outgoing.Disconnect(fc, now)
	teardown := &teardownStep{Config: c.Config}
	if _, err := teardown.Reconcile(t.Context(), passAt(fc, now.Add(299*time.Second))); err == nil {
		t.Fatal("the provider is not retried before the deadline")
	}
	c.done = nil
	if _, err := teardown.Reconcile(t.Context(), passAt(fc, now.Add(300*time.Second))); err != nil {
		t.Fatal(err)
	}
	want := []string{foreigncluster.ReasonDisconnectTimedOut, "disconnect", "delete Namespace liqo-peer-milan"}
	if diff := cmp.Diff(want, c.done); diff != "" {
		t.Errorf("after the deadline (-want +done):\n%s", diff)
	}
}

func TestConsumerWithoutAnIdentityLeavesAtOnce(t *testing.T) {
	c := newConsumer(t, peerNamespace())
	fc := milan()
	fc.Spec.Outgoing = v1alpha1.PeeringDisabled
	foreigncluster.Outgoing.Disconnect(fc, now)
	if _, err := (&teardownStep{Config: c.Config}).Reconcile(t.Context(), passAt(fc, now)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"disconnect", "delete Namespace liqo-peer-milan"}, c.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestWithdrawEndsWhenTheProviderHasFinishedOrRejects(t *testing.T) {
	request := func(change func(*v1alpha1.ResourceRequest)) *v1alpha1.ResourceRequest {
		r := &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}
		change(r)
		return r
	}
	forbidden := apierrors.NewForbidden(v1alpha1.Resource("resourcerequests"), "rome", errors.New("no"))
	for _, test := range []struct {
		name             string
		existing         *v1alpha1.ResourceRequest
		refuse           error
		finished, failed bool
		withdrawn        bool
	}{
		{name: "there is no request", withdrawn: true},
		{name: "there is a request", existing: request(func(*v1alpha1.ResourceRequest) {}), withdrawn: true},
		{name: "it is withdrawn and not answered", withdrawn: true, existing: request(func(r *v1alpha1.ResourceRequest) {
			r.Spec.Withdrawn = true
		})},
		{name: "it is answered", finished: true, withdrawn: true, existing: request(func(r *v1alpha1.ResourceRequest) {
			r.Spec.Withdrawn, r.Status.Phase = true, v1alpha1.NegotiationWithdrawn
		})},
		{name: "the consumer has no rights", refuse: forbidden, finished: true},
		{name: "the identity is not accepted", refuse: apierrors.NewUnauthorized("unknown user"), finished: true},
		{name: "the provider does not answer", refuse: errors.New("connection refused"), failed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			federation := fake.NewSimpleClientset()
			if test.existing != nil {
				federation = fake.NewSimpleClientset(test.existing)
			}
			if test.refuse != nil {
				fakes.React(federation, "*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.refuse
				})
			}
			peer := &remote.Peer{Clients: &remote.Clients{Federation: federation}, Namespace: "liqo-tenant-rome"}
			finished, err := withdraw(t.Context(), peer, "rome")
			if finished != test.finished || (err != nil) != test.failed {
				t.Fatalf("finished %v, %v", finished, err)
			}
			if test.refuse == nil {
				got, err := federation.FederationV1alpha1().ResourceRequests("liqo-tenant-rome").
					Get(t.Context(), "rome", metav1.GetOptions{})
				if err != nil || got.Spec.Withdrawn != test.withdrawn {
					t.Errorf("request %+v, %v", got, err)
				}
			}
		})
	}
}
