// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote connects to remote clusters. Only this package creates clients from identities and invitations. Its
// clients verify the server's certificate, follow no redirects, and bound the length and the duration of responses.
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

// SecretName is the name of the Secret, in a peer namespace, with the identity at the provider of that namespace.
const SecretName = "identity"

// Keys of an identity, in its Secret and in a directory where it is mounted.
const (
	// KeyPrivateKey is the PEM encoded private key. It is created first, and is never sent to another cluster.
	KeyPrivateKey = "tls.key"
	// KeyRequest is the PEM encoded certificate signing request for the private key. It is stored so that the same request
	// is sent until the certificate is issued.
	KeyRequest = "tls.csr"
	// KeyCertificate is the PEM encoded certificate chain.
	KeyCertificate = "tls.crt"
	// KeyCA is the PEM encoded CA bundle of the server. Empty means the system's CAs.
	KeyCA = "ca.crt"
	// KeyServer is the https URL of the provider's Kubernetes API.
	KeyServer = "server"
	// KeyNamespace is the tenant namespace on the provider.
	KeyNamespace = "namespace"
	// KeyProxy is the URL of a proxy to the server. Empty means none.
	KeyProxy = "proxy"
	// KeyProxyCA is the PEM encoded CA bundle of the proxy of the local gateway, and KeyControl the ID of the provider to
	// which the proxy connects. They are set if the provider is reached through the tunnel.
	KeyProxyCA = "proxy-ca.crt"
	KeyControl = "control"
	// KeyProxyToken is this process's token for the proxy of the local gateway. It is in the directory only, not in the
	// Secret.
	KeyProxyToken = "proxy-token"
	// KeyToken is the token of a ServiceAccount of a provider that signs no certificates, and KeyAccount the name
	// of the ServiceAccount in the tenant namespace.
	KeyToken   = "token"
	KeyAccount = "account"
	// KeyNextPrivateKey and KeyNextRequest are the key and the request of the next certificate during a renewal.
	KeyNextPrivateKey = "next.key"
	KeyNextRequest    = "next.csr"
)

// maxToken is the maximum length of a token of a provider, in bytes.
const maxToken = 16 << 10

// ErrIncomplete is returned for an identity that has neither a certificate nor a token yet.
var ErrIncomplete = errors.New("the provider has not issued a certificate yet")

// Identity is the identity of a consumer at a provider.
type Identity struct {
	// Server is the https URL of the provider's Kubernetes API.
	Server string
	// CA is the PEM encoded CA bundle of the server. Empty means the system's CAs.
	CA []byte
	// ProxyURL is the URL of a proxy to the server. Empty means none.
	ProxyURL string
	// Control is the ID of the provider, which the proxy of the local gateway receives instead of the address in Server.
	// Empty means that ProxyURL is not the local gateway's. ProxyCA is the PEM encoded CA bundle of the gateway's proxy,
	// and ProxyTokenFile the file with the token with which this process authenticates to it.
	Control        string
	ProxyCA        []byte
	ProxyTokenFile string
	// Certificate and PrivateKey are PEM encoded.
	Certificate, PrivateKey []byte
	// Token is the token of the ServiceAccount Account in Namespace. It is empty if there is a certificate.
	Token, Account string
	// Namespace is the tenant namespace on the provider.
	Namespace string
	// IssueTime and ExpirationTime are the bounds of the validity of the certificate or the token.
	IssueTime, ExpirationTime time.Time
}

// RenewalTime returns the time after which the identity should be renewed: two thirds of its lifetime.
func (i *Identity) RenewalTime() time.Time {
	return i.IssueTime.Add(i.ExpirationTime.Sub(i.IssueTime) / 3 * 2)
}

// FromSecret returns the identity in a Secret. It fails with ErrIncomplete while the identity is not issued, and if the
// Secret is invalid.
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

// FromDirectory returns the identity in the files of a mounted Secret. It fails as FromSecret does, and if a file
// cannot be read.
func FromDirectory(directory string) (*Identity, error) {
	data := map[string][]byte{}
	for _, key := range []string{
		KeyPrivateKey, KeyCertificate, KeyCA, KeyServer, KeyNamespace, KeyProxy, KeyProxyCA, KeyControl,
		KeyToken, KeyAccount,
	} {
		content, err := os.ReadFile(filepath.Join(directory, key))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the identity: %w", err)
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

// Claims are claims of a ServiceAccount token. They are not verified: only the issuing cluster can verify the
// signature. The times are in seconds since 1970.
type Claims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expiry   int64  `json:"exp"`
}

// ReadClaims returns the claims of a token, without verifying it. It fails if the token is malformed; the error does
// not contain the token.
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

var errNoToken = errors.New("malformed ServiceAccount token")

// TokenTimes returns the times at which a token was issued and expires. It fails if the token is malformed or does not
// expire.
func TokenTimes(token string) (issued, expires time.Time, err error) {
	claims, err := ReadClaims(token)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	if claims.IssuedAt == 0 || claims.Expiry <= claims.IssuedAt {
		return time.Time{}, time.Time{}, errors.New("the token does not expire")
	}
	return time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expiry, 0), nil
}

// CheckCertificate returns the leaf of a PEM encoded certificate chain. It fails if the chain does not match the
// private key or the key is not an ECDSA key.
func CheckCertificate(chain, key []byte) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate does not match its private key: %w", err)
	}
	if _, ok := pair.Leaf.PublicKey.(*ecdsa.PublicKey); !ok {
		return nil, fmt.Errorf("the certificate has a key of type %T, not ECDSA", pair.Leaf.PublicKey)
	}
	return pair.Leaf, nil
}

// Data returns the data of the identity's Secret, without the keys of a request or a renewal.
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

// Equal reports whether the Secrets of two identities have equal data: connection settings and credentials. It does not
// compare ProxyTokenFile.
func (i *Identity) Equal(other *Identity) bool {
	return other != nil &&
		maps.EqualFunc(i.Data(), other.Data(), func(a, b []byte) bool { return string(a) == string(b) })
}

// validateServer returns an error if a URL is not an https URL, has no host, or has a user, a query or a fragment.
func validateServer(server string) error {
	parsed, err := url.Parse(server)
	switch {
	case err != nil:
		return fmt.Errorf("not a URL: %w", err)
	case parsed.Scheme != "https":
		return fmt.Errorf("%q is not an https URL", server)
	case parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return fmt.Errorf("%q must be https://host:port, without user, query and fragment", server)
	}
	return nil
}
