// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	"liqo.io/federation/apiserver/identity"
)

// serverName is the DNS name in the certificate of every move.
const serverName = "mover"

// NewIdentity returns a self-signed certificate and its private key, both as PEM. Both movers of a move present it and
// accept no other certificate. It does not expire, because the clocks of two clusters may differ, and is deleted with
// the move.
func NewIdentity(move string) (certificate, key []byte, err error) {
	pair, err := identity.SelfSigned(x509.Certificate{
		Subject: pkix.Name{CommonName: move}, DNSNames: []string{serverName},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// tlsConfig returns the TLS configuration of both movers, which present the certificate of the move and accept only
// that. It fails if the certificate or the key cannot be read.
func (o *Options) tlsConfig() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(o.Certificate, o.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the move: %w", err)
	}
	only := x509.NewCertPool()
	only.AddCert(pair.Leaf)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ServerName: serverName,
		RootCAs: only, ClientCAs: only, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
