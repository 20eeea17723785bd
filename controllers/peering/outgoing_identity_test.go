// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
)

func token(subject string, expires time.Time) string {
	claims := fmt.Sprintf(`{"sub":%q,"exp":%d}`, subject, expires.Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func invitationSecret(content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "invitation-milan"},
		Type:       v1alpha1.SecretTypeInvitation,
		Data:       map[string][]byte{v1alpha1.InvitationTokenKey: []byte(content)},
	}
}

func milan() *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "milan-uid", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.ForeignClusterSpec{
			ClusterID: milanID, Outgoing: v1alpha1.PeeringEnabled, Incoming: v1alpha1.PeeringDisabled,
			Server: "https://10.1.0.1:6443", InvitationSecretName: "invitation-milan",
		},
	}
}

// joining is a consumer that has an invitation, and a provider that answers.
type joining struct {
	identity   *corev1.Secret
	invitation *corev1.Secret
	answer     func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error)
	give       func(with *remote.Identity, namespace, account string) (string, error)
	tokens     int
	requests   []*v1alpha1.IdentityRequest
	connected  *remote.Identity
	writes     int
}

func newJoining(t *testing.T) *joining {
	return &joining{
		invitation: invitationSecret(token("system:serviceaccount:liqo-invitations:invitation-"+peeringUID, now.Add(time.Hour))),
		answer: func(request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			request.Status = v1alpha1.IdentityRequestStatus{
				Certificate: kittest.Certificate(t, request.Spec.Request, peerName(), false),
				ClusterID:   milanID, TenantNamespace: "liqo-tenant-rome",
			}
			return request, nil
		},
	}
}

func (j *joining) step() *identityStep {
	notFound := apierrors.NewNotFound(corev1.Resource("secrets"), "x")
	keep := func(_ context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
		j.writes++
		j.identity = secret.DeepCopy()
		return secret.DeepCopy(), nil
	}
	return &identityStep{
		clusterID: romeID, clusterName: "rome",
		getIdentity: func(context.Context, string) (*corev1.Secret, error) {
			if j.identity == nil {
				return nil, notFound
			}
			return j.identity.DeepCopy(), nil
		},
		createIdentity: keep,
		updateIdentity: keep,
		getInvitation: func(string) (*corev1.Secret, error) {
			if j.invitation == nil {
				return nil, notFound
			}
			return j.invitation, nil
		},
		deleteInvitation: func(context.Context, *corev1.Secret) error {
			j.writes++
			j.invitation = nil
			return nil
		},
		request: func(_ context.Context, _ *v1alpha1.ForeignCluster, _ string, request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			j.requests = append(j.requests, request.DeepCopy())
			return j.answer(request.DeepCopy())
		},
		token: func(_ context.Context, with *remote.Identity, namespace, account string) (string, error) {
			j.tokens++
			return j.give(with, namespace, account)
		},
		renew: func(_ context.Context, _ string, request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			j.requests = append(j.requests, request.DeepCopy())
			return j.answer(request.DeepCopy())
		},
		connect: func(_ context.Context, _ string, identity *remote.Identity) error { j.connected = identity; return nil },
	}
}

func TestAnInvitationBuysAnIdentity(t *testing.T) {
	j := newJoining(t)
	p := &pass{fc: milan(), now: now}
	if _, err := j.step().reconcile(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if request := j.requests[0]; request.Name != "invitation-"+peeringUID || request.Spec.ClusterID != romeID || request.Spec.ClusterName != "rome" {
		t.Errorf("request %s %+v", request.Name, request.Spec)
	}
	if p.identity == nil || p.identity.phase != v1alpha1.PeeringEstablished || p.fc.Status.RemoteTenantNamespace != "liqo-tenant-rome" {
		t.Fatalf("verdict %+v, status %+v", p.identity, p.fc.Status)
	}
	if !p.fc.Status.IdentityExpirationTime.Time.Equal(now.Add(24 * time.Hour)) {
		t.Errorf("expires %v", p.fc.Status.IdentityExpirationTime)
	}
	if j.connected == nil || j.connected.Server != "https://10.1.0.1:6443" || j.connected.Namespace != "liqo-tenant-rome" {
		t.Errorf("connected with %+v", j.connected)
	}
	if j.invitation != nil {
		t.Error("the invitation is still there")
	}
	j.writes = 0
	if _, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: now}); err != nil || j.writes > 0 || len(j.requests) != 1 {
		t.Errorf("the next pass: %v, %d writes, %d requests", err, j.writes, len(j.requests))
	}
}

func TestALostAnswerIsAskedForWithTheSameRequest(t *testing.T) {
	j := newJoining(t)
	answer := j.answer
	j.answer = func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		return nil, errors.New("connection reset")
	}
	p := &pass{fc: milan(), now: now}
	if _, err := j.step().reconcile(t.Context(), p); err == nil {
		t.Fatal("a provider that cannot be reached is not tried again")
	}
	if p.identity.phase != v1alpha1.PeeringPending || p.identity.reason != ReasonProviderUnreachable {
		t.Errorf("verdict %+v", p.identity)
	}
	j.answer = answer
	if _, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: now}); err != nil {
		t.Fatal(err)
	}
	if string(j.requests[0].Spec.Request) != string(j.requests[1].Spec.Request) {
		t.Error("the second request is another one: the provider would refuse it")
	}
}

func TestAClusterIDThatIsNotKnownIsTrustedOnFirstUse(t *testing.T) {
	j := newJoining(t)
	p := &pass{fc: milan(), now: now}
	p.fc.Spec.ClusterID = ""
	out, err := j.step().reconcile(t.Context(), p)
	if err != nil || !out.stop || p.fc.Spec.ClusterID != milanID || j.connected != nil {
		t.Fatalf("outcome %+v, %v, cluster id %q, connected %v", out, err, p.fc.Spec.ClusterID, j.connected != nil)
	}
}

func TestWhatKeepsAConsumerOutIsSaid(t *testing.T) {
	status := func(err error) func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		return func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return nil, err }
	}
	identityRequests := v1alpha1.Resource("identityrequests")
	subject := "system:serviceaccount:liqo-invitations:invitation-" + peeringUID
	for _, test := range []struct {
		name   string
		change func(*joining, *v1alpha1.ForeignCluster)
		phase  v1alpha1.PeeringPhase
		reason string
		says   string
	}{
		{"no server", func(_ *joining, fc *v1alpha1.ForeignCluster) { fc.Spec.Server = "" }, v1alpha1.PeeringError, ReasonInvitationInvalid, "spec.server"},
		{"its own invitation", func(_ *joining, fc *v1alpha1.ForeignCluster) { fc.Spec.ClusterID = romeID }, v1alpha1.PeeringError, ReasonOwnCluster, "itself"},
		{"no invitation", func(_ *joining, fc *v1alpha1.ForeignCluster) { fc.Spec.InvitationSecretName = "" }, v1alpha1.PeeringError, ReasonInvitationMissing, "verb peer"},
		{"no Secret", func(j *joining, _ *v1alpha1.ForeignCluster) { j.invitation = nil }, v1alpha1.PeeringError, ReasonInvitationMissing, "invitation-milan"},
		{"a Secret of another type", func(j *joining, _ *v1alpha1.ForeignCluster) { j.invitation.Type = corev1.SecretTypeOpaque }, v1alpha1.PeeringError, ReasonInvitationInvalid, "type"},
		{"a token of somebody else", func(j *joining, _ *v1alpha1.ForeignCluster) {
			j.invitation = invitationSecret(token("system:serviceaccount:kube-system:default", now.Add(time.Hour)))
		}, v1alpha1.PeeringError, ReasonInvitationInvalid, "no invitation"},
		{"something that is no token", func(j *joining, _ *v1alpha1.ForeignCluster) { j.invitation = invitationSecret("x.%.y") }, v1alpha1.PeeringError, ReasonInvitationInvalid, "no invitation"},
		{"an expired token", func(j *joining, _ *v1alpha1.ForeignCluster) {
			j.invitation = invitationSecret(token(subject, now))
		}, v1alpha1.PeeringDenied, ReasonInvitationExpired, "new one"},
		{"a token that the provider does not know", func(j *joining, _ *v1alpha1.ForeignCluster) {
			j.answer = status(apierrors.NewUnauthorized("no"))
		}, v1alpha1.PeeringDenied, ReasonInvitationRejected, "new one"},
		{"a token that was used", func(j *joining, _ *v1alpha1.ForeignCluster) {
			j.answer = status(apierrors.NewConflict(identityRequests, "x", errors.New("used")))
		}, v1alpha1.PeeringDenied, ReasonInvitationRejected, "used"},
		{"a refusal", func(j *joining, _ *v1alpha1.ForeignCluster) {
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "ClusterAlreadyPeered", Message: "unpeer \x1b[31mfirst"})
				return r, nil
			}
		}, v1alpha1.PeeringDenied, ReasonIdentityRefused, "unpeer [31mfirst"},
		{"no certificate yet", func(j *joining, _ *v1alpha1.ForeignCluster) {
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return r, nil }
		}, v1alpha1.PeeringPending, ReasonIdentityPending, "certificate"},
		{"another cluster than was invited to", func(_ *joining, fc *v1alpha1.ForeignCluster) { fc.Spec.ClusterID = peeringUID }, v1alpha1.PeeringError, ReasonClusterIDMismatch, milanID},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJoining(t)
			p := &pass{fc: milan(), now: now}
			test.change(j, p.fc)
			out, err := j.step().reconcile(t.Context(), p)
			if err != nil || !out.stop || out.after == 0 {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			if p.identity.phase != test.phase || p.identity.reason != test.reason || !strings.Contains(p.identity.message, test.says) {
				t.Errorf("verdict %+v, want %s %s with %q", p.identity, test.phase, test.reason, test.says)
			}
			if p.fc.Status.OutgoingPeering != test.phase || j.connected != nil {
				t.Errorf("outgoing %s, connected %v", p.fc.Status.OutgoingPeering, j.connected != nil)
			}
			if strings.Contains(p.identity.message, string(j.invitationToken())) {
				t.Error("the token is in the status")
			}
		})
	}
}

func (j *joining) invitationToken() string {
	if j.invitation == nil {
		return "\x00"
	}
	return string(j.invitation.Data[v1alpha1.InvitationTokenKey])
}

func TestAnswersOfStrangersAreChecked(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *v1alpha1.IdentityRequest){
		"a certificate for another name": func(t *testing.T, r *v1alpha1.IdentityRequest) {
			r.Status.Certificate = kittest.Certificate(t, r.Spec.Request, pkix.Name{CommonName: "admin"}, false)
		},
		"a certificate for another key": func(t *testing.T, r *v1alpha1.IdentityRequest) {
			_, request, err := newKey(peeringUID)
			if err != nil {
				t.Fatal(err)
			}
			r.Status.Certificate = kittest.Certificate(t, request, peerName(), false)
		},
		"a namespace that is no tenant's": func(_ *testing.T, r *v1alpha1.IdentityRequest) { r.Status.TenantNamespace = "kube-system" },
		"a namespace with a path in it":   func(_ *testing.T, r *v1alpha1.IdentityRequest) { r.Status.TenantNamespace = "liqo-tenant-../x" },
		"an id that is none":              func(_ *testing.T, r *v1alpha1.IdentityRequest) { r.Status.ClusterID = "milan" },
		"our own id":                      func(_ *testing.T, r *v1alpha1.IdentityRequest) { r.Status.ClusterID = romeID },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJoining(t)
			answer := j.answer
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				answered, err := answer(r)
				change(t, answered)
				return answered, err
			}
			p := &pass{fc: milan(), now: now}
			if _, err := j.step().reconcile(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if p.identity.reason != ReasonIdentityInvalid || j.connected != nil || j.identity.Data[remote.KeyCertificate] != nil {
				t.Errorf("verdict %+v, connected %v", p.identity, j.connected != nil)
			}
		})
	}
}

func TestAnInvitationReplacesAnIdentityThatWasRevokedAndNoOther(t *testing.T) {
	const other = "11111111-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	invited := func(uid string, expires time.Time) *corev1.Secret {
		return invitationSecret(token("system:serviceaccount:liqo-invitations:invitation-"+uid, expires))
	}
	for _, test := range []struct {
		name       string
		reason     string
		invitation *corev1.Secret
		asks       bool
		stays      bool
	}{
		{"a new invitation after a revocation", ReasonIdentityRevoked, invited(other, now.Add(time.Hour)), true, false},
		{"a new invitation to an identity that is good, as far as is known", ReasonOfferAccepted, invited(other, now.Add(time.Hour)), false, true},
		{"the invitation that was used", ReasonIdentityRevoked, invited(peeringUID, now.Add(time.Hour)), false, false},
		{"an invitation that is over", ReasonIdentityRevoked, invited(other, now), false, false},
		{"what is no invitation", ReasonIdentityRevoked, invitationSecret("x"), false, false},
		{"none", ReasonIdentityRevoked, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := peered(t)
			old := j.connected
			j.invitation = test.invitation
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				r.Status = v1alpha1.IdentityRequestStatus{
					Certificate: kittest.Certificate(t, r.Spec.Request, pkix.Name{CommonName: other, Organization: []string{v1alpha1.PeerGroup}}, false),
					ClusterID:   milanID, TenantNamespace: "liqo-tenant-rome",
				}
				return r, nil
			}
			p := &pass{fc: milan(), now: now}
			outgoingAspect.set(p.fc, v1alpha1.PeeringDenied, test.reason, "")
			if _, err := j.step().reconcile(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if asked := len(j.requests) == 1 && j.requests[0].Name == "invitation-"+other; asked != test.asks {
				t.Errorf("asked %t, %d requests", asked, len(j.requests))
			}
			if replaced := string(j.connected.Certificate) != string(old.Certificate); replaced != test.asks {
				t.Errorf("another identity is used: %t", replaced)
			}
			if stays := j.invitation != nil; stays != test.stays {
				t.Errorf("the invitation is there still: %t", stays)
			}
		})
	}
}
