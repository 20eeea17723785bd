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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
)

// peered is a consumer that has its identity already.
func peered(t *testing.T) *joining {
	t.Helper()
	j := newJoining(t)
	if _, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: now}); err != nil || j.connected == nil {
		t.Fatalf("%v, connected %v", err, j.connected)
	}
	j.requests, j.writes = nil, 0
	return j
}

// The test certificates begin an hour ago and live for 25 hours.
var due = now.Add(-time.Hour).Add(25 * time.Hour * 2 / 3)

func TestAnIdentityIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	j := peered(t)
	out, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: due.Add(-time.Second)})
	if err != nil || len(j.requests) > 0 || out.after != time.Second {
		t.Fatalf("a second early: %+v, %v, %d requests", out, err, len(j.requests))
	}
	old := j.connected
	p := &pass{fc: milan(), now: due}
	if _, err := j.step().reconcile(t.Context(), p); err != nil || len(j.requests) != 1 {
		t.Fatalf("%v, %d requests", err, len(j.requests))
	}
	if string(j.connected.PrivateKey) == string(old.PrivateKey) || string(j.identity.Data[remote.KeyCertificate]) != string(j.connected.Certificate) {
		t.Error("the identity is not another one, or not the one that is kept")
	}
	if j.identity.Data[remote.KeyNextPrivateKey] != nil || j.identity.Data[remote.KeyNextRequest] != nil {
		t.Error("the next key is there still")
	}
	if _, err := remote.FromSecret(j.identity); err != nil {
		t.Error(err)
	}
	if p.identity.reason != ReasonIdentityIssued {
		t.Errorf("verdict %+v", p.identity)
	}
}

func TestALostAnswerToARenewalIsAskedForWithTheSameRequest(t *testing.T) {
	j := peered(t)
	answer, old := j.answer, j.connected
	for _, lost := range []func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error){
		func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			return nil, errors.New("connection reset")
		},
		// It is being made: the certificate that is there is the old one.
		func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			r.Status.Certificate = old.Certificate
			return r, nil
		},
	} {
		j.answer = lost
		p := &pass{fc: milan(), now: due}
		out, err := j.step().reconcile(t.Context(), p)
		if err != nil || out.stop || out.after == 0 || p.identity.phase != v1alpha1.PeeringEstablished {
			t.Fatalf("outcome %+v, %v, verdict %+v: the old identity is good still", out, err, p.identity)
		}
		if j.connected.Certificate == nil || string(j.connected.Certificate) != string(old.Certificate) {
			t.Fatal("the old identity is not used any more")
		}
	}
	j.answer = answer
	if _, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: due}); err != nil {
		t.Fatal(err)
	}
	for _, request := range j.requests[1:] {
		if string(request.Spec.Request) != string(j.requests[0].Spec.Request) {
			t.Error("a retry asks for another key")
		}
	}
	if string(j.connected.Certificate) == string(old.Certificate) {
		t.Error("the renewed identity is not used")
	}
}

func TestAProviderThatRenewsForAnotherNamespaceIsNotFollowed(t *testing.T) {
	j := peered(t)
	answer, old := j.answer, j.connected
	j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		answered, err := answer(r)
		answered.Status.TenantNamespace = "liqo-tenant-other"
		return answered, err
	}
	p := &pass{fc: milan(), now: due}
	if _, err := j.step().reconcile(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.identity.reason != ReasonRenewalFailing || j.connected.Namespace != old.Namespace {
		t.Errorf("verdict %+v, connected to %s", p.identity, j.connected.Namespace)
	}
}

func accountToken(issued time.Time, life time.Duration) string {
	claims := fmt.Sprintf(`{"sub":"system:serviceaccount:liqo-tenant-rome:federation-peer","iat":%d,"exp":%d}`, issued.Unix(), issued.Add(life).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestWhereNoCertificatesAreSignedATokenIsTheIdentity(t *testing.T) {
	j := newJoining(t)
	j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		return knownByAccount(r), nil
	}
	var with []*remote.Identity
	issued := now
	j.give = func(identity *remote.Identity, namespace, account string) (string, error) {
		if namespace != "liqo-tenant-rome" || account != "federation-peer" {
			return "", fmt.Errorf("asked for a token of %s/%s", namespace, account)
		}
		with = append(with, identity)
		return accountToken(issued, 24*time.Hour), nil
	}
	invitation := string(j.invitation.Data[v1alpha1.InvitationTokenKey])
	p := &pass{fc: milan(), now: now}
	if _, err := j.step().reconcile(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if j.connected == nil || j.connected.Token != accountToken(now, 24*time.Hour) || p.identity.phase != v1alpha1.PeeringEstablished {
		t.Fatalf("connected with %+v, verdict %+v", j.connected, p.identity)
	}
	if with[0].Token != invitation || !p.fc.Status.IdentityExpirationTime.Time.Equal(now.Add(24*time.Hour)) {
		t.Errorf("asked with %+v, expires %v", with[0], p.fc.Status.IdentityExpirationTime)
	}
	issued = now.Add(16 * time.Hour)
	if _, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: issued}); err != nil {
		t.Fatal(err)
	}
	if len(with) != 2 || with[1].Token != accountToken(now, 24*time.Hour) || j.connected.Token != accountToken(issued, 24*time.Hour) {
		t.Errorf("renewed %d times; connected with %+v", len(with)-1, j.connected)
	}
	if len(j.requests) != 2 || string(j.requests[0].Spec.Request) == string(j.requests[1].Spec.Request) {
		t.Errorf("%d requests for a certificate, or the same one again", len(j.requests))
	}
}

// knownByAccount is the answer of a provider where nobody signs.
func knownByAccount(r *v1alpha1.IdentityRequest) *v1alpha1.IdentityRequest {
	r.Status = v1alpha1.IdentityRequestStatus{ServiceAccountName: "federation-peer", ClusterID: milanID, TenantNamespace: "liqo-tenant-rome"}
	identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount, "")
	return r
}

func TestARenewalThatNobodySignsIsOneByToken(t *testing.T) {
	j := peered(t)
	old := j.connected
	j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		answer := knownByAccount(r)
		answer.Status.Certificate = old.Certificate
		return answer, nil
	}
	j.give = func(with *remote.Identity, namespace, account string) (string, error) {
		if string(with.Certificate) != string(old.Certificate) || namespace != "liqo-tenant-rome" || account != "federation-peer" {
			t.Errorf("asked for a token of %s/%s with %+v", namespace, account, with)
		}
		return accountToken(due, 24*time.Hour), nil
	}
	key, request := j.identity.Data[remote.KeyPrivateKey], j.identity.Data[remote.KeyRequest]
	p := &pass{fc: milan(), now: due}
	if _, err := j.step().reconcile(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.identity.reason != ReasonIdentityIssued || j.connected.Token == "" || j.connected.Account != "federation-peer" || j.connected.Certificate != nil {
		t.Fatalf("connected with %+v, verdict %+v", j.connected, p.identity)
	}
	// The key stays with the request for it.
	if string(j.identity.Data[remote.KeyPrivateKey]) != string(key) || string(j.identity.Data[remote.KeyRequest]) != string(request) ||
		j.identity.Data[remote.KeyNextPrivateKey] != nil {
		t.Error("the keys are not those of before")
	}
}

func TestAnAccountGetsACertificateOrATokenInTime(t *testing.T) {
	begins := now
	renewal, last := begins.Add(16*time.Hour), begins.Add(20*time.Hour)
	refused := apierrors.NewForbidden(v1alpha1.Resource("resourcerequests"), "rome", errors.New("an older version"))
	pending := func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		r = knownByAccount(r)
		r.Generation++
		return r, nil
	}
	for _, test := range []struct {
		name   string
		answer func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error)
		now    time.Time
		by     string
	}{
		{"a certificate where somebody signs again", nil, renewal, "certificate"},
		{"the token that there is as long as nothing is decided", pending, last.Add(-time.Second), "token"},
		{"another token when nothing is decided in time", pending, last, "next token"},
		{"another token from a provider that cannot decide that", func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return nil, refused }, renewal, "next token"},
		{"another token when the certificate is of somebody else", func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			r.Status = v1alpha1.IdentityRequestStatus{Certificate: kittest.Certificate(t, r.Spec.Request, pkix.Name{CommonName: "admin"}, false), ClusterID: milanID, TenantNamespace: "liqo-tenant-rome"}
			return r, nil
		}, renewal, "next token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJoining(t)
			signs := j.answer
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return knownByAccount(r), nil }
			issued := begins
			j.give = func(*remote.Identity, string, string) (string, error) { return accountToken(issued, 24*time.Hour), nil }
			if _, err := j.step().reconcile(t.Context(), &pass{fc: milan(), now: begins}); err != nil {
				t.Fatal(err)
			}
			if j.answer = test.answer; j.answer == nil {
				j.answer = signs
			}
			issued = test.now
			p := &pass{fc: milan(), now: test.now}
			out, err := j.step().reconcile(t.Context(), p)
			if err != nil || out.after == 0 || p.identity.phase != v1alpha1.PeeringEstablished || p.identity.reason != ReasonIdentityIssued {
				t.Errorf("outcome %+v, %v, verdict %+v", out, err, p.identity)
			}
			by := map[string]string{accountToken(begins, 24*time.Hour): "token", accountToken(test.now, 24*time.Hour): "next token", "": "certificate"}[j.connected.Token]
			if by != test.by {
				t.Errorf("connected by its %s, want %s", by, test.by)
			}
			if by == "certificate" && (len(j.connected.Certificate) == 0 || j.connected.Account != "") {
				t.Errorf("connected with %+v", j.connected)
			}
		})
	}
}

func TestWhyARenewalIsNotSignedIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		status metav1.ConditionStatus
		again  bool
	}{
		"nobody signs":       {metav1.ConditionUnknown, true},
		"the signer says no": {metav1.ConditionFalse, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := peered(t)
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				identity.SetCondition(r, v1alpha1.ConditionIssued, test.status, identity.ReasonSigningFailed, "out of paper")
				return r, nil
			}
			for range 2 {
				p := &pass{fc: milan(), now: due}
				if out, err := j.step().reconcile(t.Context(), p); err != nil || out.after != renewalRetry {
					t.Fatalf("outcome %+v, %v", out, err)
				}
				if p.identity.reason != ReasonRenewalFailing || !strings.Contains(p.identity.message, "out of paper") {
					t.Errorf("verdict %+v", p.identity)
				}
			}
			if again := string(j.requests[0].Spec.Request) == string(j.requests[1].Spec.Request); again != test.again {
				t.Errorf("the same request again is %t", again)
			}
		})
	}
}
