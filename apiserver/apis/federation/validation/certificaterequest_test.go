// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const invitationUID = "0d9a7f3e-2b1c-4d5e-8f60-718293a4b5c6"

// goodRequest returns the template of a valid signing request.
func goodRequest() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: invitationUID,
		Organization: []string{v1alpha1.PeerGroup}}}
}

func sign(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certificateRequestType, Bytes: der})
}

func ecdsaKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCertificateRequestOfAConsumerIsAccepted(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"P-256": ecdsaKey(t, elliptic.P256()),
		"P-384": ecdsaKey(t, elliptic.P384()), "Ed25519": edwards} {
		request, errs := ValidateCertificateRequest(sign(t, goodRequest(), key), invitationUID, field.NewPath("request"))
		if len(errs) > 0 || request == nil || request.Subject.CommonName != invitationUID {
			t.Errorf("%s is refused: %v", name, errs)
		}
	}
}

func TestInvalidCertificateRequestIsRefused(t *testing.T) {
	key := ecdsaKey(t, elliptic.P256())
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := string(sign(t, goodRequest(), key))
	changed := func(change func(*x509.CertificateRequest)) string {
		request := goodRequest()
		change(request)
		return string(sign(t, request, key))
	}
	forged := func() string {
		block, _ := pem.Decode([]byte(good))
		block.Bytes[len(block.Bytes)-1] ^= 1
		return string(pem.EncodeToMemory(block))
	}
	for name, request := range map[string]string{
		"nothing":                  "",
		"text":                     "request",
		"two requests":             good + good,
		"text before":              "text\n" + good,
		"text after":               good + "text",
		"headers":                  strings.Replace(good, "REQUEST-----\n", "REQUEST-----\nProc-Type: 4,ENCRYPTED\n\n", 1),
		"another block":            strings.ReplaceAll(good, "CERTIFICATE REQUEST", "CERTIFICATE"),
		"garbage in a block":       string(pem.EncodeToMemory(&pem.Block{Type: certificateRequestType, Bytes: []byte("DER")})),
		"too much":                 good + strings.Repeat("\n", maxCertificateRequest),
		"another's signature":      forged(),
		"an RSA key":               string(sign(t, goodRequest(), weak)),
		"a curve that is not used": string(sign(t, goodRequest(), ecdsaKey(t, elliptic.P521()))),
		"a foreign identity":       changed(func(r *x509.CertificateRequest) { r.Subject.CommonName = romeID }),
		"an administrator":         changed(func(r *x509.CertificateRequest) { r.Subject.CommonName = "kubernetes-admin" }),
		"no identity":              changed(func(r *x509.CertificateRequest) { r.Subject.CommonName = "" }),
		"no organization":          changed(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }),
		"another organisation":     changed(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }),
		"an extra organisation": changed(func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{v1alpha1.PeerGroup, "system:masters"}
		}),
		"the organisation twice": changed(func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{v1alpha1.PeerGroup, v1alpha1.PeerGroup}
		}),
		"a unit":    changed(func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} }),
		"a country": changed(func(r *x509.CertificateRequest) { r.Subject.Country = []string{"IT"} }),
		"a second common name": changed(func(r *x509.CertificateRequest) {
			r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: []int{2, 5, 4, 3}, Value: "kubernetes-admin"}}
		}),
		"a name":         changed(func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }),
		"an address":     changed(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} }),
		"a mail address": changed(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.org"} }),
		"an extension to be a authority": changed(func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if got, errs := ValidateCertificateRequest([]byte(request), invitationUID,
				field.NewPath("request")); len(errs) == 0 || got != nil {
				t.Errorf("it is accepted: %v", errs)
			}
		})
	}
	if _, errs := ValidateCertificateRequest(
		[]byte(changed(func(r *x509.CertificateRequest) { r.Subject.CommonName = "" })), "",
		field.NewPath("request")); len(errs) == 0 {
		t.Error("no identity is accepted for no invitation")
	}
}

func FuzzCertificateRequest(f *testing.F) {
	f.Add(sign(f, goodRequest(), ecdsaKey(f, elliptic.P256())))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----"))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\na: b\n\nMAA=\n-----END CERTIFICATE REQUEST-----"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		request, errs := ValidateCertificateRequest(encoded, invitationUID, field.NewPath("request"))
		if (request == nil) != (len(errs) > 0) {
			t.Fatalf("it is both accepted and refused: %v", errs)
		}
		if request != nil && (request.CheckSignature() != nil || request.Subject.CommonName != invitationUID) {
			t.Error("an invalid request is accepted")
		}
	})
}
