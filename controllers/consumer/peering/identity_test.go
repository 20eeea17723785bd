// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
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
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

func token(subject string, expires time.Time) string {
	claims := fmt.Sprintf(`{"sub":%q,"exp":%d}`, subject, expires.Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func invitationSecret(content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-invitations", Name: "invitation-milan"},
		Type:       v1alpha1.SecretTypeInvitation,
		Data:       map[string][]byte{v1alpha1.InvitationTokenKey: []byte(content)},
	}
}

// joining returns a consumer that has an invitation and no identity.
func joining(t *testing.T) *consumer {
	t.Helper()
	subject := "system:serviceaccount:liqo-invitations:invitation-" + peeringUID
	return newConsumer(t, invitationSecret(token(subject, now.Add(time.Hour))))
}

func TestIdentityIsObtainedWithAnInvitation(t *testing.T) {
	j := joining(t)
	p := passAt(milan(), now)
	if _, err := j.identify(p); err != nil {
		t.Fatal(err)
	}
	request := j.requests[0]
	if request.Name != "invitation-"+peeringUID || request.Spec.ClusterID != romeID || request.Spec.ClusterName != "rome" {
		t.Errorf("request %s %+v", request.Name, request.Spec)
	}
	if p.Identity == nil || p.Identity.Phase != v1alpha1.PeeringEstablished ||
		p.ForeignCluster.Status.RemoteTenantNamespace != "liqo-tenant-rome" {
		t.Fatalf("verdict %+v, status %+v", p.Identity, p.ForeignCluster.Status)
	}
	if !p.ForeignCluster.Status.IdentityExpirationTime.Time.Equal(now.Add(24 * time.Hour)) {
		t.Errorf("expires %v", p.ForeignCluster.Status.IdentityExpirationTime)
	}
	if j.connected == nil || j.connected.Server != "https://10.1.0.1:6443" || j.connected.Namespace != "liqo-tenant-rome" {
		t.Errorf("connected with %+v", j.connected)
	}
	if j.invitation() != nil {
		t.Error("the invitation still exists")
	}
	before := len(j.Writes)
	if _, err := j.identify(passAt(milan(), now)); err != nil || len(j.Writes) > before || len(j.requests) != 1 {
		t.Errorf("the next pass: %v, writes %v, %d requests", err, j.WritesSince(before), len(j.requests))
	}
}

func TestRetryAfterALostAnswerSendsTheSameRequest(t *testing.T) {
	j := joining(t)
	answer := j.answer
	j.answer = func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		return nil, errors.New("connection reset")
	}
	p := passAt(milan(), now)
	if _, err := j.identify(p); err == nil {
		t.Fatal("a provider that cannot be reached is not retried")
	}
	if p.Identity.Phase != v1alpha1.PeeringPending || p.Identity.Reason != foreigncluster.ReasonProviderUnreachable {
		t.Errorf("verdict %+v", p.Identity)
	}
	j.answer = answer
	if _, err := j.identify(passAt(milan(), now)); err != nil {
		t.Fatal(err)
	}
	if string(j.requests[0].Spec.Request) != string(j.requests[1].Spec.Request) {
		t.Error("the second request is another one, which the provider refuses")
	}
}

func TestClusterIDIsTrustedOnFirstUse(t *testing.T) {
	j := joining(t)
	p := passAt(milan(), now)
	p.ForeignCluster.Spec.ClusterID = ""
	out, err := j.identify(p)
	if err != nil || !out.Stop || p.ForeignCluster.Spec.ClusterID != milanID || j.connected != nil {
		t.Fatalf("outcome %+v, %v, cluster id %q, connected %v",
			out, err, p.ForeignCluster.Spec.ClusterID, j.connected != nil)
	}
}

func TestObstaclesToAnIdentityAreReported(t *testing.T) {
	status := func(err error) answerFunc {
		return func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return nil, err }
	}
	identityRequests := v1alpha1.Resource("identityrequests")
	subject := "system:serviceaccount:liqo-invitations:invitation-" + peeringUID
	failed, denied := v1alpha1.PeeringError, v1alpha1.PeeringDenied
	for _, test := range []struct {
		name    string
		change  func(*consumer, *v1alpha1.ForeignCluster)
		phase   v1alpha1.PeeringPhase
		reason  string
		message string
	}{
		{
			"no server", func(_ *consumer, fc *v1alpha1.ForeignCluster) { fc.Spec.Server = "" },
			failed, foreigncluster.ReasonInvitationInvalid, "spec.server",
		},
		{
			"an invitation of the local cluster", func(_ *consumer, fc *v1alpha1.ForeignCluster) { fc.Spec.ClusterID = romeID },
			failed, foreigncluster.ReasonOwnCluster, "itself",
		},
		{
			"no invitation", func(_ *consumer, fc *v1alpha1.ForeignCluster) { fc.Spec.InvitationSecretName = "" },
			failed, foreigncluster.ReasonInvitationMissing, "subresource peer",
		},
		{
			"no Secret", func(j *consumer, _ *v1alpha1.ForeignCluster) { j.invite(nil) },
			failed, foreigncluster.ReasonInvitationMissing, "invitation-milan",
		},
		{"a Secret of another type", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			secret := j.invitation()
			secret.Type, secret.ResourceVersion = corev1.SecretTypeOpaque, ""
			j.invite(secret)
		}, failed, foreigncluster.ReasonInvitationInvalid, "type"},
		{"a token of another account", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			j.invite(invitationSecret(token("system:serviceaccount:kube-system:default", now.Add(time.Hour))))
		}, failed, foreigncluster.ReasonInvitationInvalid, "no invitation"},
		{
			"no token", func(j *consumer, _ *v1alpha1.ForeignCluster) { j.invite(invitationSecret("x.%.y")) },
			failed, foreigncluster.ReasonInvitationInvalid, "no invitation",
		},
		{"an expired token", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			j.invite(invitationSecret(token(subject, now)))
		}, denied, foreigncluster.ReasonInvitationExpired, "new one"},
		{"a token that the provider does not accept", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			j.answer = status(apierrors.NewUnauthorized("no"))
		}, denied, foreigncluster.ReasonInvitationRejected, "new one"},
		{"a token that was used", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			j.answer = status(apierrors.NewConflict(identityRequests, "x", errors.New("used")))
		}, denied, foreigncluster.ReasonInvitationRejected, "used"},
		{"a refusal", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "InvitationNotBound",
					Message: "unpeer \x1b[31mfirst",
				})
				return r, nil
			}
		}, denied, foreigncluster.ReasonIdentityRefused, "unpeer [31mfirst"},
		{"no certificate yet", func(j *consumer, _ *v1alpha1.ForeignCluster) {
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return r, nil }
		}, v1alpha1.PeeringPending, foreigncluster.ReasonIdentityPending, "certificate"},
		{
			"another cluster than was invited to",
			func(_ *consumer, fc *v1alpha1.ForeignCluster) { fc.Spec.ClusterID = peeringUID },
			failed, foreigncluster.ReasonClusterIDMismatch, milanID,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := joining(t)
			p := passAt(milan(), now)
			test.change(j, p.ForeignCluster)
			out, err := j.identify(p)
			if err != nil || !out.Stop || out.After == 0 {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			got := p.Identity
			if got.Phase != test.phase || got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
				t.Errorf("verdict %+v, want %s %s with %q", p.Identity, test.phase, test.reason, test.message)
			}
			if p.ForeignCluster.Status.OutgoingPeering != test.phase || j.connected != nil {
				t.Errorf("outgoing %s, connected %v", p.ForeignCluster.Status.OutgoingPeering, j.connected != nil)
			}
			if strings.Contains(p.Identity.Message, j.invitationToken()) {
				t.Error("the token is in the status")
			}
		})
	}
}

func (c *consumer) invitationToken() string {
	c.t.Helper()
	invitation := c.invitation()
	if invitation == nil {
		return "\x00"
	}
	return string(invitation.Data[v1alpha1.InvitationTokenKey])
}

func TestAnswersOfProvidersAreValidated(t *testing.T) {
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
		"a namespace that is no tenant namespace": func(_ *testing.T, r *v1alpha1.IdentityRequest) {
			r.Status.TenantNamespace = "kube-system"
		},
		"a namespace with a path in it": func(_ *testing.T, r *v1alpha1.IdentityRequest) {
			r.Status.TenantNamespace = "liqo-tenant-../x"
		},
		"an invalid cluster ID":  func(_ *testing.T, r *v1alpha1.IdentityRequest) { r.Status.ClusterID = "milan" },
		"the id of the consumer": func(_ *testing.T, r *v1alpha1.IdentityRequest) { r.Status.ClusterID = romeID },
	} {
		t.Run(name, func(t *testing.T) {
			j := joining(t)
			answer := j.answer
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				answered, err := answer(r)
				change(t, answered)
				return answered, err
			}
			p := passAt(milan(), now)
			if _, err := j.identify(p); err != nil {
				t.Fatal(err)
			}
			stored := j.secret().Data[remote.KeyCertificate] != nil
			if p.Identity.Reason != foreigncluster.ReasonIdentityInvalid || j.connected != nil || stored {
				t.Errorf("verdict %+v, connected %v", p.Identity, j.connected != nil)
			}
		})
	}
}

func TestInvitationReplacesARevokedIdentityAndNoOther(t *testing.T) {
	const other = "11111111-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	later := now.Add(time.Hour)
	invited := func(uid string, expires time.Time) *corev1.Secret {
		return invitationSecret(token("system:serviceaccount:liqo-invitations:invitation-"+uid, expires))
	}
	for _, test := range []struct {
		name       string
		reason     string
		invitation *corev1.Secret
		requests   bool
		stays      bool
	}{
		{"a new invitation after a revocation", foreigncluster.ReasonIdentityRevoked, invited(other, later), true, false},
		{"a new invitation to an accepted identity", foreigncluster.ReasonOfferAccepted, invited(other, later), false, true},
		{"the invitation that was used", foreigncluster.ReasonIdentityRevoked, invited(peeringUID, later), false, false},
		{"an expired invitation", foreigncluster.ReasonIdentityRevoked, invited(other, now), false, false},
		{"no token", foreigncluster.ReasonIdentityRevoked, invitationSecret("x"), false, false},
		{"no invitation", foreigncluster.ReasonIdentityRevoked, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := peered(t)
			old := j.connected
			j.invite(test.invitation)
			name := pkix.Name{CommonName: other, Organization: []string{v1alpha1.PeerGroup}}
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				r.Status = v1alpha1.IdentityRequestStatus{
					Certificate: kittest.Certificate(t, r.Spec.Request, name, false),
					ClusterID:   milanID, TenantNamespace: "liqo-tenant-rome",
				}
				return r, nil
			}
			p := passAt(milan(), now)
			foreigncluster.Outgoing.Set(p.ForeignCluster, v1alpha1.PeeringDenied, test.reason, "")
			if _, err := j.identify(p); err != nil {
				t.Fatal(err)
			}
			if requested := len(j.requests) == 1 && j.requests[0].Name == "invitation-"+other; requested != test.requests {
				t.Errorf("requested %t, %d requests", requested, len(j.requests))
			}
			if replaced := string(j.connected.Certificate) != string(old.Certificate); replaced != test.requests {
				t.Errorf("another identity is used: %t", replaced)
			}
			if stays := j.invitation() != nil; stays != test.stays {
				t.Errorf("the invitation still exists: %t", stays)
			}
		})
	}
}
