// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates creates certificates for the servers and clients of tests.
package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Validity is the lifetime of every certificate. No run of the tests takes as long.
const Validity = 6 * time.Hour

// Authority is a certificate authority that signs certificates of servers or clients.
type Authority struct {
	// Certificate is the certificate of the authority itself, and Bundle is the same one, PEM
	// encoded.
	Certificate *x509.Certificate
	Bundle      []byte

	key crypto.Signer
}

// NewAuthority creates a certificate authority with this common name.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, err
	}
	return &Authority{Certificate: certificate, Bundle: encode(certificate.Raw), key: key}, nil
}

// Issue returns a certificate and its key, PEM encoded. It is valid for a client, and also for a
// server if names or addresses are not empty.
func (a *Authority) Issue(subject pkix.Name, names []string, addresses []net.IP) (certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(names)+len(addresses) > 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	template := &x509.Certificate{
		Subject:      subject,
		SerialNumber: serial,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(Validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usages,
		DNSNames:     names,
		IPAddresses:  addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, signer.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(signer)
	return encode(der), key, err
}

// Certify signs a PEM encoded certificate request of a client. The certificate is valid from the time began, for the
// duration life.
func (a *Authority) Certify(request []byte, began time.Time, life time.Duration) ([]byte, error) {
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("the request is not PEM encoded")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:      parsed.Subject,
		SerialNumber: serial,
		NotBefore:    began,
		NotAfter:     began.Add(life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.Certificate, parsed.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return encode(der), nil
}

// Write issues a certificate, and writes it to <dir>/<name>.crt and its key to <dir>/<name>.key.
func (a *Authority) Write(dir, name string, subject pkix.Name, names []string, addresses []net.IP) error {
	certificate, key, err := a.Issue(subject, names, addresses)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600)
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}
