// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// SelfSigned returns a certificate with the subject, names, usages and times of a template,
// signed by its own new key. The key is ECDSA P-256: each probe of a server begins a
// connection, and signing with RSA costs many times as much. A template without a serial
// number gets a random one.
func SelfSigned(template x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating a key: %w", err)
	}
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing the certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
