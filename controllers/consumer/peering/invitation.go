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

// errNoInvitation reports a token of another kind.
var errNoInvitation = errors.New("the token is not one of an invitation")

// invitation has the fields that a consumer can read in the token of an invitation. Only the
// provider can verify the token.
type invitation struct {
	token string
	// account is the service account of the token, and the name of the IdentityRequest.
	account string
	// uid identifies the peering.
	uid     types.UID
	expires time.Time
}

// readInvitation returns the invitation in a Secret. It fails if the Secret or its token is
// of another type.
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
