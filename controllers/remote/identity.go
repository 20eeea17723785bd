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
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
	// KeyProxy is the URL of a proxy on the way to the server, if there is one.
	KeyProxy = "proxy"
	// KeyProxyCA is the PEM encoded bundle that the proxy of our own gateway is
	// verified with, and KeyControl the id of the cluster that it is asked for,
	// where the provider is reached by the tunnel.
	KeyProxyCA = "proxy-ca.crt"
	KeyControl = "control"
	// KeyProxyToken is the file, in a directory and in no Secret, with this
	// process's own token for that proxy.
	KeyProxyToken = "proxy-token"
	// KeyToken is the token of a service account on the provider, where it
	// signs no certificates, and KeyAccount the name of that account in the
	// tenant namespace.
	KeyToken   = "token"
	KeyAccount = "account"
	// KeyNextPrivateKey and KeyNextRequest are those of the certificate that
	// is to follow: the same request is sent until it is answered.
	KeyNextPrivateKey = "next.key"
	KeyNextRequest    = "next.csr"
)

// maxToken bounds a token that a provider gives, in bytes.
const maxToken = 16 << 10

// ErrIncomplete says that an identity has a key but no certificate yet.
var ErrIncomplete = errors.New("the provider has not issued a certificate yet")

// Identity is what a provider knows this cluster by.
type Identity struct {
	// Server is the https URL of the provider's Kubernetes API.
	Server string
	// CA is the PEM encoded bundle that the server is verified with.
	CA []byte
	// ProxyURL is that of a proxy on the way to the server; empty means none.
	ProxyURL string
	// Control is the id of the cluster that the proxy is asked for, whatever the
	// server is called, where the proxy is that of our own gateway; ProxyCA is the
	// PEM encoded bundle that it is verified with, and ProxyTokenFile holds the
	// token to show it.
	Control        string
	ProxyCA        []byte
	ProxyTokenFile string
	// Certificate and PrivateKey are PEM encoded.
	Certificate, PrivateKey []byte
	// Token is that of the service account Account in Namespace, when there is
	// no certificate.
	Token, Account string
	// Namespace is the tenant namespace on the provider.
	Namespace string
	// IssueTime is when the certificate or the token begins, and
	// ExpirationTime when it ends.
	IssueTime, ExpirationTime time.Time
}

// RenewalTime is when two thirds of the identity's life are over.
func (i *Identity) RenewalTime() time.Time {
	return i.IssueTime.Add(i.ExpirationTime.Sub(i.IssueTime) / 3 * 2)
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
	for _, key := range []string{KeyPrivateKey, KeyCertificate, KeyCA, KeyServer, KeyNamespace, KeyProxy, KeyProxyCA, KeyControl, KeyToken, KeyAccount} {
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
	identity.ProxyTokenFile = filepath.Join(directory, KeyProxyToken)
	return identity, nil
}

func fromData(data map[string][]byte) (*Identity, error) {
	if len(data[KeyCertificate]) == 0 && len(data[KeyToken]) == 0 {
		return nil, ErrIncomplete
	}
	identity := &Identity{
		Server:      string(data[KeyServer]),
		CA:          data[KeyCA],
		ProxyURL:    string(data[KeyProxy]),
		ProxyCA:     data[KeyProxyCA],
		Control:     string(data[KeyControl]),
		Certificate: data[KeyCertificate],
		PrivateKey:  data[KeyPrivateKey],
		Token:       string(data[KeyToken]),
		Account:     string(data[KeyAccount]),
		Namespace:   string(data[KeyNamespace]),
	}
	if err := validateServer(identity.Server); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyServer, err)
	}
	if identity.Namespace == "" {
		return nil, fmt.Errorf("key %s is missing", KeyNamespace)
	}
	if identity.Token != "" {
		var err error
		identity.IssueTime, identity.ExpirationTime, err = TokenTimes(identity.Token)
		return identity, err
	}
	leaf, err := CheckCertificate(identity.Certificate, identity.PrivateKey)
	if err != nil {
		return nil, err
	}
	identity.IssueTime, identity.ExpirationTime = leaf.NotBefore, leaf.NotAfter
	return identity, nil
}

// Claims are what a token of a service account says about itself. Only the
// cluster that made it can tell whether that is true.
type Claims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expiry   int64  `json:"exp"`
}

// ReadClaims reads what a token says. The error does not repeat the token.
func ReadClaims(token string) (*Claims, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return nil, errNoToken
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errNoToken
	}
	claims := &Claims{}
	if err := json.Unmarshal(payload, claims); err != nil {
		return nil, errNoToken
	}
	return claims, nil
}

var errNoToken = errors.New("it is not the token of a service account")

// TokenTimes are when a token begins and ends.
func TokenTimes(token string) (issued, expires time.Time, err error) {
	claims, err := ReadClaims(token)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	if claims.IssuedAt == 0 || claims.Expiry <= claims.IssuedAt {
		return time.Time{}, time.Time{}, errors.New("the token has no end")
	}
	return time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expiry, 0), nil
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
	data := map[string][]byte{}
	for key, value := range map[string][]byte{
		KeyPrivateKey:  i.PrivateKey,
		KeyCertificate: i.Certificate,
		KeyServer:      []byte(i.Server),
		KeyNamespace:   []byte(i.Namespace),
		KeyCA:          i.CA,
		KeyProxy:       []byte(i.ProxyURL),
		KeyProxyCA:     i.ProxyCA,
		KeyControl:     []byte(i.Control),
		KeyToken:       []byte(i.Token),
		KeyAccount:     []byte(i.Account),
	} {
		if len(value) > 0 {
			data[key] = value
		}
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
