// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned/fake"
)

func namespaceOf(name, foreignCluster, role string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "ns", Labels: map[string]string{
		v1alpha1.LabelForeignCluster: foreignCluster, v1alpha1.LabelRole: role,
	}}}
}

// ending is what a consumer still has of a peering, and what was done to it.
type ending struct {
	namespace *corev1.Namespace
	nodes     []*v1alpha1.VirtualNode
	requests  []*v1alpha1.ResourceRequest
	finished  bool
	fails     error
	// stored are the volumes at the provider.
	stored []v1alpha1.PlannedVolume
	// anew tells that the next peering has begun, which no cache knows.
	anew bool
	done []string
}

func (e *ending) StoredBy(context.Context, *v1alpha1.ForeignCluster) ([]v1alpha1.PlannedVolume, error) {
	return e.stored, nil
}

func (e *ending) ReleaseAll(_ context.Context, _ *v1alpha1.ForeignCluster, policy v1alpha1.UnoffloadPolicy) error {
	e.done = append(e.done, "release "+string(policy))
	return nil
}

func (e *ending) Obstacles(string, string) []string { return nil }

func (e *ending) consumer() *outgoingTeardown {
	notFound := apierrors.NewNotFound(corev1.Resource("x"), "x")
	return &outgoingTeardown{
		volumes: e,
		getNamespace: func(string) (*corev1.Namespace, error) {
			if e.namespace == nil {
				return nil, notFound
			}
			return e.namespace, nil
		},
		deleteNamespace: func(context.Context, *corev1.Namespace) error {
			e.done = append(e.done, "delete namespace")
			e.namespace.DeletionTimestamp = &metav1.Time{Time: now}
			return nil
		},
		virtualNodes: func(string) ([]*v1alpha1.VirtualNode, error) { return e.nodes, nil },
		requests:     func(string) ([]*v1alpha1.ResourceRequest, error) { return e.requests, nil },
		withdraw: func(context.Context, *v1alpha1.ForeignCluster) (bool, error) {
			e.done = append(e.done, "withdraw")
			return e.finished, e.fails
		},
		disconnect:    func(string) { e.done = append(e.done, "disconnect") },
		getInvitation: func(string) (*corev1.Secret, error) { return nil, notFound },
		deleteInvitation: func(context.Context, *corev1.Secret) error {
			e.done = append(e.done, "delete invitation")
			return nil
		},
		isOver: func(context.Context, *v1alpha1.ForeignCluster) (bool, error) { return !e.anew, nil },
		warn:   func(_ *v1alpha1.ForeignCluster, reason, _ string) { e.done = append(e.done, reason) },
	}
}

// stage is one look at a peering that is being undone: what it does, and what
// phase it leaves behind.
type stage struct {
	name   string
	before func()
	done   []string
	phase  v1alpha1.PeeringPhase
}

// run looks once; done is where what is done is written down.
func (s stage) run(t *testing.T, teardown step, fc *v1alpha1.ForeignCluster, phase *v1alpha1.PeeringPhase, done *[]string) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		s.before()
		*done = nil
		out, err := teardown.reconcile(t.Context(), &pass{fc: fc, now: now})
		if err != nil || !out.stop {
			t.Fatalf("outcome %+v, %v", out, err)
		}
		if diff := cmp.Diff(s.done, *done); diff != "" || *phase != s.phase {
			t.Errorf("phase %s (-want +done):\n%s", *phase, diff)
		}
	})
}

func TestAnInvitationForTheNextTimeIsNotTakenForThatOfTheLast(t *testing.T) {
	e := &ending{}
	teardown := e.consumer()
	invitation := &corev1.Secret{Type: v1alpha1.SecretTypeInvitation}
	teardown.getInvitation = func(string) (*corev1.Secret, error) { return invitation, nil }
	seen := milan()
	seen.ResourceVersion, seen.Spec.Outgoing, seen.Spec.InvitationSecretName = "68", v1alpha1.PeeringDisabled, "invitation-milan"
	seen.Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
	// The second pass does not see yet what the first one wrote.
	for range 2 {
		if _, err := teardown.reconcile(t.Context(), &pass{fc: seen.DeepCopy(), now: now}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"disconnect", "delete invitation", "disconnect"}, e.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

// A foreign cluster is deleted and made anew with another invitation, and the
// cache has the first one still.
func TestAnInvitationForTheNextForeignClusterStays(t *testing.T) {
	for _, anew := range []bool{false, true} {
		e := &ending{anew: anew}
		teardown := e.consumer()
		teardown.getInvitation = func(string) (*corev1.Secret, error) { return &corev1.Secret{Type: v1alpha1.SecretTypeInvitation}, nil }
		seen := milan()
		seen.DeletionTimestamp, seen.Spec.InvitationSecretName = &metav1.Time{Time: now}, "invitation-milan"
		if _, err := teardown.reconcile(t.Context(), &pass{fc: seen, now: now}); err != nil {
			t.Fatal(err)
		}
		if removed := slices.Contains(e.done, "delete invitation"); removed == anew {
			t.Errorf("the next one has begun: %t, its invitation is removed: %t", anew, removed)
		}
	}
}

func TestAConsumerLeavesInOrder(t *testing.T) {
	e := &ending{
		namespace: namespaceOf("liqo-peer-milan", "milan", v1alpha1.RolePeer),
		nodes:     []*v1alpha1.VirtualNode{{}},
		requests:  []*v1alpha1.ResourceRequest{{}},
	}
	fc := milan()
	fc.Spec.Outgoing = v1alpha1.PeeringDisabled
	for _, stage := range []stage{
		{"says so first", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits for the virtual nodes", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits until the request is taken back here", func() { e.nodes = nil }, nil, v1alpha1.PeeringDisconnecting},
		{"tells the provider, and waits for it", func() { e.requests[0].Spec.Withdrawn = true }, []string{"withdraw"}, v1alpha1.PeeringDisconnecting},
		{"removes everything when the provider has finished", func() { e.finished = true }, []string{"withdraw", "disconnect", "delete namespace"}, v1alpha1.PeeringDisconnecting},
		{"waits for the namespace", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"is done", func() { e.namespace = nil }, []string{"disconnect"}, v1alpha1.PeeringNone},
	} {
		stage.run(t, e.consumer(), fc, &fc.Status.OutgoingPeering, &e.done)
	}
}

func TestWhoWasRevokedIsSaidToBeUntilThePeeringIsUndone(t *testing.T) {
	for _, reason := range []string{ReasonIdentityRevoked, ReasonIdentityIssued} {
		e := &ending{namespace: namespaceOf("liqo-peer-milan", "milan", v1alpha1.RolePeer), nodes: []*v1alpha1.VirtualNode{{}}}
		fc := milan()
		authAspect.set(fc, v1alpha1.PeeringDenied, reason, "")
		fc.Spec.Outgoing = v1alpha1.PeeringDisabled
		for range 2 {
			p := &pass{fc: fc, now: now}
			if _, err := e.consumer().reconcile(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			summarize(p)
			if _, revoked := identity.RevokedSince(fc); revoked != (reason == ReasonIdentityRevoked) {
				t.Errorf("after %s the identity is said to be %+v", reason, p.identity)
			}
		}
	}
}

func TestAProviderThatIsGoneIsWaitedForUntilTheDeadlineOnly(t *testing.T) {
	e := &ending{namespace: namespaceOf("liqo-peer-milan", "milan", v1alpha1.RolePeer), fails: errors.New("connection refused")}
	fc := milan()
	fc.Spec.Outgoing = v1alpha1.PeeringDisabled
	outgoingAspect.disconnect(fc, now)
	if _, err := e.consumer().reconcile(t.Context(), &pass{fc: fc, now: now.Add(299 * time.Second)}); err == nil {
		t.Fatal("the provider is not tried again before the deadline")
	}
	e.done = nil
	if _, err := e.consumer().reconcile(t.Context(), &pass{fc: fc, now: now.Add(300 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ReasonDisconnectTimedOut, "disconnect", "delete namespace"}, e.done); diff != "" {
		t.Errorf("after the deadline (-want +done):\n%s", diff)
	}
}

func TestWithdrawAt(t *testing.T) {
	request := func(change func(*v1alpha1.ResourceRequest)) *v1alpha1.ResourceRequest {
		r := &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}
		change(r)
		return r
	}
	forbidden := apierrors.NewForbidden(v1alpha1.Resource("resourcerequests"), "rome", errors.New("no"))
	for _, test := range []struct {
		name             string
		there            *v1alpha1.ResourceRequest
		refuse           error
		finished, failed bool
		withdrawn        bool
	}{
		{name: "nothing is there yet", withdrawn: true},
		{name: "a request is there", there: request(func(*v1alpha1.ResourceRequest) {}), withdrawn: true},
		{name: "it is withdrawn and not answered", there: request(func(r *v1alpha1.ResourceRequest) { r.Spec.Withdrawn = true }), withdrawn: true},
		{name: "it is answered", there: request(func(r *v1alpha1.ResourceRequest) {
			r.Spec.Withdrawn, r.Status.Phase = true, v1alpha1.NegotiationWithdrawn
		}), finished: true, withdrawn: true},
		{name: "we may not look any more", refuse: forbidden, finished: true},
		{name: "nobody knows us any more", refuse: apierrors.NewUnauthorized("who?"), finished: true},
		{name: "nobody is there", refuse: errors.New("connection refused"), failed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewSimpleClientset()
			if test.there != nil {
				client = fake.NewSimpleClientset(test.there)
			}
			if test.refuse != nil {
				client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refuse })
			}
			finished, err := withdrawAt(t.Context(), &remote.Peer{Clients: &remote.Clients{Federation: client}, Namespace: "liqo-tenant-rome"}, "rome")
			if finished != test.finished || (err != nil) != test.failed {
				t.Fatalf("finished %v, %v", finished, err)
			}
			if test.refuse == nil {
				got, err := client.FederationV1alpha1().ResourceRequests("liqo-tenant-rome").Get(t.Context(), "rome", getOptions)
				if err != nil || got.Spec.Withdrawn != test.withdrawn {
					t.Errorf("request %+v, %v", got, err)
				}
			}
		})
	}
}

// lending is what a provider still has of a peering, and what was done to it.
type lending struct {
	namespace  *corev1.Namespace
	identities []*v1alpha1.IdentityRequest
	requests   []*v1alpha1.ResourceRequest
	offers     []*v1alpha1.ResourceOffer
	twins      []*corev1.Namespace
	// volumes are the ShadowVolumeClaims of each remote namespace.
	volumes []string
	done    []string
}

func (l *lending) provider() *incomingTeardown {
	return &incomingTeardown{
		getNamespace: func(string) (*corev1.Namespace, error) {
			if l.namespace == nil {
				return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "x")
			}
			return l.namespace, nil
		},
		deleteNamespace: func(context.Context, *corev1.Namespace) error {
			l.done = append(l.done, "delete namespace")
			l.namespace.DeletionTimestamp = &metav1.Time{Time: now}
			return nil
		},
		identities: func() ([]*v1alpha1.IdentityRequest, error) { return l.identities, nil },
		deleteIdentity: func(_ context.Context, name string) error {
			l.done, l.identities = append(l.done, "delete "+name), nil
			return nil
		},
		deleteAccount: func(_ context.Context, name string) error {
			l.done = append(l.done, "delete account "+name)
			return nil
		},
		requests: func(string) ([]*v1alpha1.ResourceRequest, error) { return l.requests, nil },
		answerWithdrawal: func(_ context.Context, request *v1alpha1.ResourceRequest) error {
			l.done = append(l.done, "answer "+request.Name)
			request.Status.Phase = v1alpha1.NegotiationWithdrawn
			return nil
		},
		offers:     func(string) ([]*v1alpha1.ResourceOffer, error) { return l.offers, nil },
		twins:      func(string) ([]*corev1.Namespace, error) { return l.twins, nil },
		volumes:    func(context.Context, string) ([]string, error) { return l.volumes, nil },
		getBinding: func(string, string) (*rbacv1.RoleBinding, error) { return &rbacv1.RoleBinding{}, nil },
		deleteBinding: func(_ context.Context, namespace, name string) error {
			l.done = append(l.done, "revoke "+name+" in "+namespace)
			return nil
		},
		warn: func(_ *v1alpha1.ForeignCluster, reason, _ string) { l.done = append(l.done, reason) },
	}
}

func rome() *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "rome-uid", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.ForeignClusterSpec{ClusterID: romeID, Outgoing: v1alpha1.PeeringDisabled, Incoming: v1alpha1.PeeringEnabled},
	}
}

func identityOf(fc *v1alpha1.ForeignCluster) *v1alpha1.IdentityRequest {
	request := acceptedRequest(nil)
	request.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster"))}
	return request
}

func TestAProviderRevokesLast(t *testing.T) {
	fc := rome()
	l := &lending{
		namespace:  namespaceOf("liqo-tenant-rome", "rome", v1alpha1.RoleTenant),
		identities: []*v1alpha1.IdentityRequest{identityOf(fc)},
		requests:   []*v1alpha1.ResourceRequest{{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}},
		offers:     []*v1alpha1.ResourceOffer{{Spec: v1alpha1.ResourceOfferSpec{Withdrawn: true}, Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted}}},
		twins:      []*corev1.Namespace{{}},
	}
	fc.DeletionTimestamp = &metav1.Time{Time: now}
	for _, stage := range []stage{
		{"says so first", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits until the consumer gives the offer back", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits for the twins when the consumer leaves by itself", func() { l.requests[0].Spec.Withdrawn = true }, nil, v1alpha1.PeeringDisconnecting},
		{"answers, revokes and removes", func() { l.twins = nil }, []string{"answer rome", "revoke federation-tenant in liqo-tenant-rome", "delete namespace"}, v1alpha1.PeeringDisconnecting},
		{"waits for the namespace", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"forgets the identity at the end, and what paid for it", func() { l.namespace = nil }, []string{"delete account invitation-" + peeringUID, "delete invitation-" + peeringUID}, v1alpha1.PeeringNone},
		{"and rests", func() {}, nil, v1alpha1.PeeringNone},
	} {
		stage.run(t, l.provider(), fc, &fc.Status.IncomingPeering, &l.done)
	}
}

func TestAConsumerThatIsGoneLosesItsAccessAtTheDeadline(t *testing.T) {
	fc := rome()
	fc.Spec.Incoming = v1alpha1.PeeringDisabled
	incomingAspect.disconnect(fc, now)
	l := &lending{
		namespace: namespaceOf("liqo-tenant-rome", "rome", v1alpha1.RoleTenant),
		requests:  []*v1alpha1.ResourceRequest{{}},
		offers:    []*v1alpha1.ResourceOffer{{Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted}}},
		// Somebody keeps it, as a node that is lost.
		twins: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "web-rome"}}},
	}
	if _, err := l.provider().reconcile(t.Context(), &pass{fc: fc, now: now.Add(301 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ReasonDisconnectTimedOut, "revoke federation-twin in web-rome", "revoke federation-tenant in liqo-tenant-rome", "delete namespace"}, l.done); diff != "" {
		t.Errorf("after the deadline (-want +done):\n%s", diff)
	}
}
