// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki creates the keys and certificates of a cluster. It keeps existing ones, so that a repaired cluster
// has the same identity.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is the period for which all certificates are valid.
const validity = 365 * 24 * time.Hour

// Pair is the location of a certificate and its private key.
type Pair struct{ Dir, Name string }

// Cert returns the path of the certificate.
func (p Pair) Cert() string { return filepath.Join(p.Dir, p.Name+".crt") }

// Key returns the path of the private key.
func (p Pair) Key() string { return filepath.Join(p.Dir, p.Name+".key") }

func (p Pair) exists() (bool, error) {
	// The certificate is written after the key.
	_, err := os.Stat(p.Cert())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Request describes a certificate to issue.
type Request struct {
	CommonName   string
	Organization []string
	// Hosts are the DNS names and IP addresses of a server. If there are none, the certificate is a client
	// certificate.
	Hosts []string
	// Client permits client authentication with the certificate of a server, too.
	Client bool
}

// EnsureAuthority creates a self-signed certificate authority, unless its certificate exists.
func EnsureAuthority(p Pair, commonName string) error {
	if found, err := p.exists(); err != nil || found {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	return create(p, template, nil, nil)
}

// Ensure creates a certificate signed by an authority, unless it exists.
func Ensure(p, authority Pair, r Request) error {
	if found, err := p.exists(); err != nil || found {
		return err
	}
	caCert, caKey, err := load(authority)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: r.CommonName, Organization: r.Organization},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if len(r.Hosts) == 0 || r.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return create(p, template, caCert, caKey)
}

// EnsureKeyPair creates a key pair for signing tokens of ServiceAccounts, unless it exists. It returns the paths
// of the private and the public key.
func EnsureKeyPair(dir, name string) (private, public string, err error) {
	private, public = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if _, err := os.Stat(public); err == nil {
		return private, public, nil
	}
	key, err := writeKey(private)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	return private, public, writePEM(public, "PUBLIC KEY", der, 0o644)
}

func create(p Pair, template, parent *x509.Certificate, parentKey crypto.Signer) error {
	key, err := writeKey(p.Key())
	if err != nil {
		return err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return err
	}
	// The clock of a client on a virtual machine may be behind.
	template.NotBefore = time.Now().Add(-5 * time.Minute)
	template.NotAfter = time.Now().Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return fmt.Errorf("creating certificate %s: %w", p.Cert(), err)
	}
	return writePEM(p.Cert(), "CERTIFICATE", der, 0o644)
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".partial"
	if err := os.WriteFile(temporary, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func load(p Pair) (*x509.Certificate, crypto.Signer, error) {
	certDER, err := readPEM(p.Cert())
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing %s: %w", p.Cert(), err)
	}
	keyDER, err := readPEM(p.Key())
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing %s: %w", p.Key(), err)
	}
	return cert, key, nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("parsing %s: no PEM block", path)
	}
	return block.Bytes, nil
}
