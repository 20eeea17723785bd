// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
)

const (
	peeringUID = "0b6c1f9e-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	romeID     = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID    = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// csrOf makes a signing request of a template that has been changed.
func csrOf(t *testing.T, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: peeringUID, Organization: []string{v1alpha1.PeerGroup}}}
	change(template)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// certify signs a request as a cluster's signer does, for a subject.
func certify(t *testing.T, request []byte, subject pkix.Name, authority bool) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: authority, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "cluster"}}, parsed.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func peerName() pkix.Name {
	return pkix.Name{CommonName: peeringUID, Organization: []string{v1alpha1.PeerGroup}}
}

func acceptedRequest(csr []byte) *v1alpha1.IdentityRequest {
	request := &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "invitation-" + peeringUID},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: romeID, ClusterName: "rome", Request: csr},
		Status:     v1alpha1.IdentityRequestStatus{TenantNamespace: "liqo-tenant-rome", ClusterID: milanID},
	}
	identity.SetCondition(request, v1alpha1.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted, "")
	return request
}

// signing is a signer with one request and a cluster that may sign.
type signing struct {
	request *v1alpha1.IdentityRequest
	csr     *certificatesv1.CertificateSigningRequest
	created int
	removed int
}

func (s *signing) signer() *signer {
	return &signer{
		clock: testingclock.NewFakePassiveClock(now), lifetime: identity.DefaultLifetime,
		get: func(string) (*v1alpha1.IdentityRequest, error) { return s.request, nil },
		commit: func(_ context.Context, _, wanted *v1alpha1.IdentityRequest) (bool, error) {
			s.request = wanted
			return true, nil
		},
		getCSR: func(_ context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
			if s.csr == nil {
				return nil, apierrors.NewNotFound(certificatesv1.Resource("certificatesigningrequests"), name)
			}
			return s.csr.DeepCopy(), nil
		},
		create: func(_ context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
			s.created++
			csr.CreationTimestamp = metav1.NewTime(now)
			s.csr = csr
			return csr.DeepCopy(), nil
		},
		approve: func(_ context.Context, csr *certificatesv1.CertificateSigningRequest) error { s.csr = csr; return nil },
		remove:  func(context.Context, string) error { s.removed++; s.csr = nil; return nil },
	}
}

func (s *signing) pass(t *testing.T) {
	t.Helper()
	if _, err := s.signer().reconcile(t.Context(), cache.ObjectName{Name: s.request.Name}); err != nil {
		t.Fatal(err)
	}
}

func (s *signing) issued() metav1.Condition {
	if condition := meta.FindStatusCondition(s.request.Status.Conditions, v1alpha1.ConditionIssued); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

func TestAnAcceptedIdentityIsSigned(t *testing.T) {
	s := &signing{request: acceptedRequest(csrOf(t, func(*x509.CertificateRequest) {}))}
	s.pass(t)
	if s.created != 1 || conditionOf(s.csr, certificatesv1.CertificateApproved) == nil {
		t.Fatalf("%d signing requests, approved: %v", s.created, s.csr)
	}
	if s.csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || *s.csr.Spec.ExpirationSeconds != 24*3600 {
		t.Errorf("signing request %+v", s.csr.Spec)
	}
	s.csr.Status.Certificate = certify(t, s.request.Spec.Request, peerName(), false)
	s.pass(t)
	if s.issued().Status != metav1.ConditionTrue || len(s.request.Status.Certificate) == 0 || s.removed != 1 {
		t.Fatalf("issued %+v, %d signing requests removed", s.issued(), s.removed)
	}
	s.pass(t)
	if s.created != 1 {
		t.Error("an identity was signed twice")
	}
}

func TestNothingIsSignedBeforeTheTenantIsThere(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.IdentityRequest){
		"no answer yet":       func(r *v1alpha1.IdentityRequest) { r.Status = v1alpha1.IdentityRequestStatus{} },
		"no tenant namespace": func(r *v1alpha1.IdentityRequest) { r.Status.TenantNamespace = "" },
		"refused": func(r *v1alpha1.IdentityRequest) {
			identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionFalse, ReasonClusterAlreadyPeered, "")
		},
		"a renewal that is not accepted yet": func(r *v1alpha1.IdentityRequest) { r.Generation++ },
		"an account": func(r *v1alpha1.IdentityRequest) {
			identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount, "")
		},
		"going": func(r *v1alpha1.IdentityRequest) { r.DeletionTimestamp = &metav1.Time{Time: now} },
	} {
		t.Run(name, func(t *testing.T) {
			s := &signing{request: acceptedRequest(csrOf(t, func(*x509.CertificateRequest) {}))}
			change(s.request)
			s.pass(t)
			if s.created > 0 {
				t.Error("a signing request was made")
			}
		})
	}
}

func refusesToSign(t *testing.T, change func(*x509.CertificateRequest)) {
	t.Helper()
	s := &signing{request: acceptedRequest(csrOf(t, change))}
	s.pass(t)
	if s.created > 0 {
		t.Fatal("the cluster was asked to sign it")
	}
	if got := s.issued(); got.Status != metav1.ConditionFalse || got.Reason != ReasonRequestInvalid || got.Message == "" {
		t.Errorf("answer %+v", got)
	}
}

func TestCSRForeignIdentityRejected(t *testing.T) {
	for _, name := range []string{"", "admin", "system:node:milan", "ffffffff-7d54-4c2a-8f3e-1a2b3c4d5e6f", peeringUID + " "} {
		t.Run(name, func(t *testing.T) {
			refusesToSign(t, func(r *x509.CertificateRequest) { r.Subject.CommonName = name })
		})
	}
}

func TestCSRExtraOrgRejected(t *testing.T) {
	for _, organisations := range [][]string{nil, {"system:masters"}, {v1alpha1.PeerGroup, "system:masters"}, {"system:masters", v1alpha1.PeerGroup}, {v1alpha1.PeerGroup, v1alpha1.PeerGroup}} {
		t.Run(strings.Join(organisations, ","), func(t *testing.T) {
			refusesToSign(t, func(r *x509.CertificateRequest) { r.Subject.Organization = organisations })
		})
	}
}

func TestCSRThatAsksForNamesRejected(t *testing.T) {
	refusesToSign(t, func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes.default"} })
}

func TestCSRWrongSignerRejected(t *testing.T) {
	csr := csrOf(t, func(*x509.CertificateRequest) {})
	other := csrOf(t, func(*x509.CertificateRequest) {})
	for name, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
		"another signer": func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName = certificatesv1.KubeletServingSignerName
		},
		"another request": func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Request = other },
		"another usage": func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &signing{request: acceptedRequest(csr)}
			s.csr = newSigningRequest(signingName(s.request), s.request, identity.DefaultLifetime)
			change(s.csr)
			s.pass(t)
			if conditionOf(s.csr, certificatesv1.CertificateApproved) != nil {
				t.Error("a signing request that somebody else made was approved")
			}
			if got := s.issued(); got.Reason != identity.ReasonSigningFailed {
				t.Errorf("answer %+v", got)
			}
		})
	}
}

func TestACertificateThatWasNotAskedForIsNotHandedOut(t *testing.T) {
	csr := csrOf(t, func(*x509.CertificateRequest) {})
	for name, certificate := range map[string][]byte{
		"another key":     certify(t, csrOf(t, func(*x509.CertificateRequest) {}), peerName(), false),
		"another subject": certify(t, csr, pkix.Name{CommonName: "admin"}, false),
		"an authority":    certify(t, csr, peerName(), true),
		"nothing at all":  []byte("x"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &signing{request: acceptedRequest(csr)}
			s.pass(t)
			s.csr.Status.Certificate = certificate
			s.pass(t)
			if len(s.request.Status.Certificate) > 0 || s.issued().Reason != identity.ReasonSigningFailed {
				t.Errorf("answer %+v", s.issued())
			}
		})
	}
}

func TestASilentSignerIsComplainedAbout(t *testing.T) {
	s := &signing{request: acceptedRequest(csrOf(t, func(*x509.CertificateRequest) {}))}
	s.pass(t)
	s.csr.CreationTimestamp = metav1.NewTime(now.Add(-2 * signerPatience))
	s.pass(t)
	if got := s.issued(); got.Status != metav1.ConditionUnknown || !strings.Contains(got.Message, "kube-controller-manager") {
		t.Errorf("condition %+v", got)
	}
	s.csr.Status.Conditions = append(s.csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "Broken",
	})
	s.pass(t)
	if got := s.issued(); got.Status != metav1.ConditionFalse || got.Reason != identity.ReasonSigningFailed {
		t.Errorf("condition %+v after the signer failed", got)
	}
}
