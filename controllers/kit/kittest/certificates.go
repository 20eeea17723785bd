// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kittest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// SigningRequest returns a PEM-encoded certificate request for subject, signed with a new key. changes modify the
// request before it is signed.
func SigningRequest(t testing.TB, subject pkix.Name, changes ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: subject}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// Certificate returns a PEM-encoded client certificate for subject and for the public key of a certificate request. It
// is valid from an hour before Epoch until a day after Epoch. authority sets its field isCA.
func Certificate(t testing.TB, request []byte, subject pkix.Name, authority bool) []byte {
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
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: Epoch.Add(-time.Hour), NotAfter: Epoch.Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: authority, BasicConstraintsValid: true,
	}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: "cluster"}}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, parsed.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
