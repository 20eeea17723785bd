// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// inClusterServer is the URL of kube-apiserver within its own cluster. Every kube-apiserver has a certificate for this
// host name.
const inClusterServer = "https://kubernetes.default.svc"

// fill sets the status of an invitation: the body of the POST that accepts it, the equivalent ForeignCluster, and the
// command that sends the POST. With an empty token, as in a dry run, it sets no command.
func fill(
	invitation *federation.Invitation, provider Provider, parent *federation.PeeringToken, token string, expiry time.Time,
) error {
	if parent.Spec.Mode == federation.PeeringInBand {
		// Through the tunnel, consumers reach the API server by its in-cluster name.
		provider.Server, provider.CA = inClusterServer, provider.OwnCA
	}
	invitation.Status = federation.InvitationStatus{
		ClusterName:    provider.ClusterName,
		ExpirationTime: metav1.NewTime(expiry),
		Peering: &federation.Peering{
			TypeMeta:   typeMeta("Peering"),
			ObjectMeta: metav1.ObjectMeta{Name: provider.ClusterName},
			Spec: federation.PeeringSpec{
				Outgoing:  federation.PeeringEnabled,
				ClusterID: provider.ClusterID,
				Server:    provider.Server,
				CABundle:  provider.CA,
				Token:     token,
			},
		},
		ForeignCluster: &federation.ForeignCluster{
			TypeMeta:   typeMeta("ForeignCluster"),
			ObjectMeta: metav1.ObjectMeta{Name: provider.ClusterName},
			Spec: federation.ForeignClusterSpec{
				ClusterID:            provider.ClusterID,
				Outgoing:             federation.PeeringEnabled,
				Incoming:             federation.PeeringDisabled,
				Server:               provider.Server,
				CABundle:             provider.CA,
				InvitationSecretName: naming.InvitationSecret(provider.ClusterName),
			},
		},
	}
	if parent.Spec.Mode == federation.PeeringInBand {
		peering, cluster := invitation.Status.Peering, invitation.Status.ForeignCluster
		peering.Spec.Mode, peering.Spec.Gateway = parent.Spec.Mode, parent.Status.Gateway.DeepCopy()
		cluster.Spec.Mode, cluster.Spec.Gateway = parent.Spec.Mode, parent.Status.Gateway.DeepCopy()
	}
	if token == "" {
		return nil
	}
	var err error
	invitation.Status.Command, err = command(invitation.Status.Peering)
	return err
}

// typeMeta returns apiVersion and kind of an object in an invitation. Without them the object could not be applied.
func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: kind}
}

// command returns a POSIX shell command that POSTs a Peering. The shell command prints the body with the builtin
// printf, so that the token does not appear in the arguments of a process.
func command(peering *federation.Peering) (string, error) {
	versioned := &v1alpha1.Peering{}
	if err := v1alpha1.Convert_federation_Peering_To_v1alpha1_Peering(peering, versioned, nil); err != nil {
		return "", fmt.Errorf("encoding the command of the invitation: %w", err)
	}
	body := map[string]any{
		"apiVersion": peering.APIVersion,
		"kind":       peering.Kind,
		"metadata":   map[string]string{"name": versioned.Name},
		"spec":       versioned.Spec,
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encoding the command of the invitation: %w", err)
	}
	path := fmt.Sprintf("/apis/%s/foreignclusters/%s/peer", v1alpha1.SchemeGroupVersion, versioned.Name)
	return fmt.Sprintf("printf %%s %s | kubectl create --raw %s -f -", quote(string(encoded)), quote(path)), nil
}

// quote returns s quoted as one word of a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
