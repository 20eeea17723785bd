// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
)

// newKey generates a private key, and a certificate signing request for it whose common name is the
// UID of the peering. Both are PEM encoded.
func newKey(peering types.UID) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a private key: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the private key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: string(peering), Organization: []string{v1alpha1.PeerGroup},
	}}
	signed, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a certificate signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: signed}), nil
}

// isFor reports whether the common name of a PEM encoded certificate signing request is the UID of a
// peering.
func isFor(request []byte, peering types.UID) bool {
	return identity.RequestedName(request) == string(peering)
}
