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
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
)

// errNoInvitation says that a token is not that of an invitation.
var errNoInvitation = errors.New("the token is not that of an invitation")

// invitation is what a consumer can read out of an invitation's token. Only
// the provider can tell whether it is genuine.
type invitation struct {
	token string
	// account is the service account that the token is for, and the name of
	// the IdentityRequest.
	account string
	// uid identifies the peering that it leads to.
	uid     types.UID
	expires time.Time
}

func readInvitation(secret *corev1.Secret) (*invitation, error) {
	if secret.Type != v1alpha1.SecretTypeInvitation {
		return nil, fmt.Errorf("secret %s/%s has type %q: only a Secret of type %s is ever sent to a provider",
			secret.Namespace, secret.Name, secret.Type, v1alpha1.SecretTypeInvitation)
	}
	token := strings.TrimSpace(string(secret.Data[v1alpha1.InvitationTokenKey]))
	claims, err := remote.ReadClaims(token)
	if err != nil {
		return nil, errNoInvitation
	}
	account := claims.Subject[strings.LastIndex(claims.Subject, ":")+1:]
	uid, ok := naming.InvitationOfAccount(account)
	if !ok || !strings.HasPrefix(claims.Subject, "system:serviceaccount:") {
		return nil, errNoInvitation
	}
	return &invitation{token: token, account: account, uid: uid, expires: time.Unix(claims.Expiry, 0)}, nil
}

// newKey makes a private key and the request to have it certified as the
// identity of a peering, both PEM encoded.
func newKey(peering types.UID) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a private key: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the private key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: string(peering), Organization: []string{v1alpha1.PeerGroup},
	}}
	signed, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: signed}), nil
}

// isFor tells whether a PEM encoded request is for the identity of a peering.
func isFor(request []byte, peering types.UID) bool {
	return identity.RequestedName(request) == string(peering)
}
