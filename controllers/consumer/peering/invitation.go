// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
)

// errNoInvitation means that a token is malformed or was issued for another purpose.
var errNoInvitation = errors.New("the token was not issued for an invitation")

// invitation has the claims in the token of an invitation. The consumer reads them without
// verification, because only the provider can verify the token.
type invitation struct {
	token string
	// account is the name of the provider's ServiceAccount that the token is for. The IdentityRequest
	// has the same name.
	account string
	// uid is the UID of the peering. It is the user name in the certificate of the identity.
	uid     types.UID
	expires time.Time
}

// readInvitation returns the invitation in a Secret. It fails if the Secret has another type than
// federation.liqo.io/invitation, and with errNoInvitation if its token is not an invitation's token.
func readInvitation(secret *corev1.Secret) (*invitation, error) {
	if secret.Type != v1alpha1.SecretTypeInvitation {
		return nil, fmt.Errorf("secret %s/%s has type %q: only Secrets of type %s are sent to providers",
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
