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
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

// peered returns a consumer that has its identity.
func peered(t *testing.T) *consumer {
	t.Helper()
	j := joining(t)
	if _, err := j.identify(passAt(milan(), now)); err != nil || j.connected == nil {
		t.Fatalf("%v, connected %v", err, j.connected)
	}
	j.requests = nil
	return j
}

// due is the renewal time of the test certificates, which are valid for 25 hours since an hour ago.
var due = now.Add(-time.Hour).Add(25 * time.Hour * 2 / 3)

func TestIdentityIsRenewedAtTwoThirdsOfItsLifetime(t *testing.T) {
	j := peered(t)
	out, err := j.identify(passAt(milan(), due.Add(-time.Second)))
	if err != nil || len(j.requests) > 0 || out.After != time.Second {
		t.Fatalf("a second early: %+v, %v, %d requests", out, err, len(j.requests))
	}
	old := j.connected
	p := passAt(milan(), due)
	if _, err := j.identify(p); err != nil || len(j.requests) != 1 {
		t.Fatalf("%v, %d requests", err, len(j.requests))
	}
	if string(j.connected.PrivateKey) == string(old.PrivateKey) ||
		string(j.secret().Data[remote.KeyCertificate]) != string(j.connected.Certificate) {
		t.Error("the identity is not another one, or not the one that is kept")
	}
	if j.secret().Data[remote.KeyNextPrivateKey] != nil || j.secret().Data[remote.KeyNextRequest] != nil {
		t.Error("the next key still exists")
	}
	if _, err := remote.FromSecret(j.secret()); err != nil {
		t.Error(err)
	}
	if p.Identity.Reason != foreigncluster.ReasonIdentityIssued {
		t.Errorf("verdict %+v", p.Identity)
	}
}

func TestRetryOfARenewalSendsTheSameRequest(t *testing.T) {
	j := peered(t)
	answer, old := j.answer, j.connected
	for _, lost := range []answerFunc{
		func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			return nil, errors.New("connection reset")
		},
		// While the provider issues the next certificate, its answer has the old one.
		func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
			r.Status.Certificate = old.Certificate
			return r, nil
		},
	} {
		j.answer = lost
		p := passAt(milan(), due)
		out, err := j.identify(p)
		if err != nil || out.Stop || out.After == 0 || p.Identity.Phase != v1alpha1.PeeringEstablished {
			t.Fatalf("outcome %+v, %v, verdict %+v: the old identity is still valid", out, err, p.Identity)
		}
		if j.connected.Certificate == nil || string(j.connected.Certificate) != string(old.Certificate) {
			t.Fatal("the old identity is no longer used")
		}
	}
	j.answer = answer
	if _, err := j.identify(passAt(milan(), due)); err != nil {
		t.Fatal(err)
	}
	for _, request := range j.requests[1:] {
		if string(request.Spec.Request) != string(j.requests[0].Spec.Request) {
			t.Error("a retry is for another key")
		}
	}
	if string(j.connected.Certificate) == string(old.Certificate) {
		t.Error("the renewed identity is not used")
	}
}

func TestRenewalForAnotherNamespaceIsRefused(t *testing.T) {
	j := peered(t)
	answer, old := j.answer, j.connected
	j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		answered, err := answer(r)
		answered.Status.TenantNamespace = "liqo-tenant-other"
		return answered, err
	}
	p := passAt(milan(), due)
	if _, err := j.identify(p); err != nil {
		t.Fatal(err)
	}
	if p.Identity.Reason != foreigncluster.ReasonRenewalFailing || j.connected.Namespace != old.Namespace {
		t.Errorf("verdict %+v, connected to %s", p.Identity, j.connected.Namespace)
	}
}

func accountToken(issued time.Time, life time.Duration) string {
	claims := fmt.Sprintf(`{"sub":"system:serviceaccount:liqo-tenant-rome:federation-peer","iat":%d,"exp":%d}`,
		issued.Unix(), issued.Add(life).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestTokenIsTheIdentityWhereNoCertificatesAreSigned(t *testing.T) {
	j := joining(t)
	j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		return knownByAccount(r), nil
	}
	var with []*remote.Identity
	issued := now
	j.issue = func(identity *remote.Identity, namespace, account string) (string, error) {
		if namespace != "liqo-tenant-rome" || account != "federation-peer" {
			return "", fmt.Errorf("a token of %s/%s is requested", namespace, account)
		}
		with = append(with, identity)
		return accountToken(issued, 24*time.Hour), nil
	}
	invitation := string(j.invitation().Data[v1alpha1.InvitationTokenKey])
	p := passAt(milan(), now)
	if _, err := j.identify(p); err != nil {
		t.Fatal(err)
	}
	if j.connected == nil || j.connected.Token != accountToken(now, 24*time.Hour) ||
		p.Identity.Phase != v1alpha1.PeeringEstablished {
		t.Fatalf("connected with %+v, verdict %+v", j.connected, p.Identity)
	}
	if with[0].Token != invitation || !p.ForeignCluster.Status.IdentityExpirationTime.Time.Equal(now.Add(24*time.Hour)) {
		t.Errorf("requested with %+v, expires %v", with[0], p.ForeignCluster.Status.IdentityExpirationTime)
	}
	issued = now.Add(16 * time.Hour)
	if _, err := j.identify(passAt(milan(), issued)); err != nil {
		t.Fatal(err)
	}
	if len(with) != 2 || with[1].Token != accountToken(now, 24*time.Hour) ||
		j.connected.Token != accountToken(issued, 24*time.Hour) {
		t.Errorf("renewed %d times; connected with %+v", len(with)-1, j.connected)
	}
	if len(j.requests) != 2 || string(j.requests[0].Spec.Request) == string(j.requests[1].Spec.Request) {
		t.Errorf("%d requests for a certificate, or the same one again", len(j.requests))
	}
}

// knownByAccount returns the answer of a provider that has no signer and issues a ServiceAccount.
func knownByAccount(r *v1alpha1.IdentityRequest) *v1alpha1.IdentityRequest {
	r.Status = v1alpha1.IdentityRequestStatus{
		ServiceAccountName: "federation-peer", ClusterID: milanID, TenantNamespace: "liqo-tenant-rome",
	}
	identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount, "")
	return r
}

func TestUnsignedRenewalIsMadeByToken(t *testing.T) {
	j := peered(t)
	old := j.connected
	j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		answer := knownByAccount(r)
		answer.Status.Certificate = old.Certificate
		return answer, nil
	}
	j.issue = func(with *remote.Identity, namespace, account string) (string, error) {
		if string(with.Certificate) != string(old.Certificate) ||
			namespace != "liqo-tenant-rome" || account != "federation-peer" {
			t.Errorf("a token of %s/%s is requested with %+v", namespace, account, with)
		}
		return accountToken(due, 24*time.Hour), nil
	}
	before := j.secret().Data
	p := passAt(milan(), due)
	if _, err := j.identify(p); err != nil {
		t.Fatal(err)
	}
	if p.Identity.Reason != foreigncluster.ReasonIdentityIssued || j.connected.Token == "" ||
		j.connected.Account != "federation-peer" || j.connected.Certificate != nil {
		t.Fatalf("connected with %+v, verdict %+v", j.connected, p.Identity)
	}
	// The key and its certificate signing request stay in the Secret.
	after := j.secret().Data
	if string(after[remote.KeyPrivateKey]) != string(before[remote.KeyPrivateKey]) ||
		string(after[remote.KeyRequest]) != string(before[remote.KeyRequest]) || after[remote.KeyNextPrivateKey] != nil {
		t.Error("the key or its signing request changed")
	}
}

func TestConsumerWithAnAccountReceivesACertificateOrATokenInTime(t *testing.T) {
	begins := now
	renewal, last := begins.Add(16*time.Hour), begins.Add(20*time.Hour)
	refused := apierrors.NewForbidden(v1alpha1.Resource("resourcerequests"), "rome", errors.New("an older version"))
	pending := func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		r = knownByAccount(r)
		r.Generation++
		return r, nil
	}
	undecided := func(*v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return nil, refused }
	misnamed := func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
		r.Status = v1alpha1.IdentityRequestStatus{
			Certificate: kittest.Certificate(t, r.Spec.Request, pkix.Name{CommonName: "admin"}, false),
			ClusterID:   milanID, TenantNamespace: "liqo-tenant-rome",
		}
		return r, nil
	}
	for _, test := range []struct {
		name   string
		answer answerFunc
		now    time.Time
		by     string
	}{
		{"a certificate where a signer answers again", nil, renewal, "certificate"},
		{"the current token while the provider decides", pending, last.Add(-time.Second), "token"},
		{"another token when the provider does not decide in time", pending, last, "next token"},
		{"another token when the provider cannot decide", undecided, renewal, "next token"},
		{"another token when the certificate is for another name", misnamed, renewal, "next token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := joining(t)
			signs := j.answer
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) { return knownByAccount(r), nil }
			issued := begins
			j.issue = func(*remote.Identity, string, string) (string, error) { return accountToken(issued, 24*time.Hour), nil }
			if _, err := j.identify(passAt(milan(), begins)); err != nil {
				t.Fatal(err)
			}
			if j.answer = test.answer; j.answer == nil {
				j.answer = signs
			}
			issued = test.now
			p := passAt(milan(), test.now)
			out, err := j.identify(p)
			if err != nil || out.After == 0 || p.Identity.Phase != v1alpha1.PeeringEstablished ||
				p.Identity.Reason != foreigncluster.ReasonIdentityIssued {
				t.Errorf("outcome %+v, %v, verdict %+v", out, err, p.Identity)
			}
			by := map[string]string{
				accountToken(begins, 24*time.Hour): "token", accountToken(test.now, 24*time.Hour): "next token", "": "certificate",
			}[j.connected.Token]
			if by != test.by {
				t.Errorf("connected by its %s, want %s", by, test.by)
			}
			if by == "certificate" && (len(j.connected.Certificate) == 0 || j.connected.Account != "") {
				t.Errorf("connected with %+v", j.connected)
			}
		})
	}
}

func TestReasonOfAnUnsignedRenewalIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		status metav1.ConditionStatus
		again  bool
	}{
		"no signer answers":  {metav1.ConditionUnknown, true},
		"the signer refuses": {metav1.ConditionFalse, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := peered(t)
			j.answer = func(r *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error) {
				identity.SetCondition(r, v1alpha1.ConditionIssued, test.status, identity.ReasonSigningFailed, "out of paper")
				return r, nil
			}
			for range 2 {
				p := passAt(milan(), due)
				if out, err := j.identify(p); err != nil || out.After != renewalRetry {
					t.Fatalf("outcome %+v, %v", out, err)
				}
				if p.Identity.Reason != foreigncluster.ReasonRenewalFailing ||
					!strings.Contains(p.Identity.Message, "out of paper") {
					t.Errorf("verdict %+v", p.Identity)
				}
			}
			if again := string(j.requests[0].Spec.Request) == string(j.requests[1].Spec.Request); again != test.again {
				t.Errorf("the same request again is %t", again)
			}
		})
	}
}
