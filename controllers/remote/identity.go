// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote connects to other clusters. It is the only place where an
// identity or an invitation becomes a client, and every client it makes
// verifies the server's certificate, follows no redirect, and bounds what it
// reads and how long it waits.
package remote

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// SecretName is the name of the Secret in a peer namespace that holds the
// identity at that provider.
const SecretName = "identity"

// Keys of an identity, in its Secret and in a directory where it is mounted.
const (
	// KeyPrivateKey is the PEM encoded private key. It is there first, and
	// never leaves the cluster.
	KeyPrivateKey = "tls.key"
	// KeyRequest is the PEM encoded certificate signing request for that key:
	// the same one is sent until it is answered.
	KeyRequest = "tls.csr"
	// KeyCertificate is the PEM encoded certificate chain.
	KeyCertificate = "tls.crt"
	// KeyCA is the PEM encoded bundle that the server is verified with. Empty
	// means the system's.
	KeyCA = "ca.crt"
	// KeyServer is the https URL of the provider's Kubernetes API.
	KeyServer = "server"
	// KeyNamespace is the tenant namespace on the provider.
	KeyNamespace = "namespace"
)

// ErrIncomplete says that an identity has a key but no certificate yet.
var ErrIncomplete = errors.New("the provider has not issued a certificate yet")

// Identity is what a provider knows this cluster by.
type Identity struct {
	// Server is the https URL of the provider's Kubernetes API.
	Server string
	// CA is the PEM encoded bundle that the server is verified with.
	CA []byte
	// Certificate and PrivateKey are PEM encoded.
	Certificate, PrivateKey []byte
	// Namespace is the tenant namespace on the provider.
	Namespace string
	// ExpirationTime is when the certificate ends.
	ExpirationTime time.Time
}

// FromSecret reads the identity out of its Secret.
func FromSecret(secret *corev1.Secret) (*Identity, error) {
	if secret.Type != v1alpha1.SecretTypeIdentity {
		return nil, fmt.Errorf("secret %s/%s has type %q, not %s: it is not an identity",
			secret.Namespace, secret.Name, secret.Type, v1alpha1.SecretTypeIdentity)
	}
	identity, err := fromData(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return identity, nil
}

// FromDirectory reads the identity out of the files of a mounted Secret.
func FromDirectory(directory string) (*Identity, error) {
	data := map[string][]byte{}
	for _, key := range []string{KeyPrivateKey, KeyCertificate, KeyCA, KeyServer, KeyNamespace} {
		content, err := os.ReadFile(filepath.Join(directory, key))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the identity: %w", err)
		}
		data[key] = content
	}
	identity, err := fromData(data)
	if err != nil {
		return nil, fmt.Errorf("identity in %s: %w", directory, err)
	}
	return identity, nil
}

func fromData(data map[string][]byte) (*Identity, error) {
	if len(data[KeyCertificate]) == 0 {
		return nil, ErrIncomplete
	}
	identity := &Identity{
		Server:      string(data[KeyServer]),
		CA:          data[KeyCA],
		Certificate: data[KeyCertificate],
		PrivateKey:  data[KeyPrivateKey],
		Namespace:   string(data[KeyNamespace]),
	}
	if err := validateServer(identity.Server); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyServer, err)
	}
	if identity.Namespace == "" {
		return nil, fmt.Errorf("key %s is missing", KeyNamespace)
	}
	leaf, err := CheckCertificate(identity.Certificate, identity.PrivateKey)
	if err != nil {
		return nil, err
	}
	identity.ExpirationTime = leaf.NotAfter
	return identity, nil
}

// CheckCertificate verifies that a PEM encoded chain belongs to a private key,
// and returns the certificate itself.
func CheckCertificate(chain, key []byte) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate does not go with its key: %w", err)
	}
	if _, ok := pair.Leaf.PublicKey.(*ecdsa.PublicKey); !ok {
		return nil, fmt.Errorf("the certificate has a key of type %T, not ECDSA", pair.Leaf.PublicKey)
	}
	return pair.Leaf, nil
}

// Data is what the Secret of an identity holds.
func (i *Identity) Data() map[string][]byte {
	data := map[string][]byte{
		KeyPrivateKey:  i.PrivateKey,
		KeyCertificate: i.Certificate,
		KeyServer:      []byte(i.Server),
		KeyNamespace:   []byte(i.Namespace),
	}
	if len(i.CA) > 0 {
		data[KeyCA] = i.CA
	}
	return data
}

// Equal tells whether two identities lead to the same connection.
func (i *Identity) Equal(other *Identity) bool {
	return other != nil && maps.EqualFunc(i.Data(), other.Data(), func(a, b []byte) bool { return string(a) == string(b) })
}

// validateServer accepts only https URLs that are nothing but a host, so that
// every path below them is ours.
func validateServer(server string) error {
	parsed, err := url.Parse(server)
	switch {
	case err != nil:
		return fmt.Errorf("not a URL: %w", err)
	case parsed.Scheme != "https":
		return fmt.Errorf("%q is not an https URL", server)
	case parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return fmt.Errorf("%q must be https://host:port, with nothing behind a path", server)
	}
	return nil
}
