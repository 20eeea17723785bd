// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// maxClusterName is the length of a ForeignCluster's name.
const maxClusterName = 40

// acquaintances are the clusters that are known, and who was invited.
type acquaintances struct {
	clusters []v1alpha1.ForeignCluster
	requests []*v1alpha1.IdentityRequest
	tokens   []v1alpha1.PeeringToken
}

// known lists who is known, and who was invited.
func (c *Config) known(ctx context.Context) (*acquaintances, error) {
	federation := c.Federation.FederationV1alpha1()
	clusters, err := federation.ForeignClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	requests, err := federation.IdentityRequests().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	tokens, err := federation.PeeringTokens().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	known := &acquaintances{clusters: clusters.Items, tokens: tokens.Items}
	for i := range requests.Items {
		known.requests = append(known.requests, &requests.Items[i])
	}
	return known, nil
}

// invitation is the token that a request was paid for with, if it is there.
func (a *acquaintances) invitation(request *v1alpha1.IdentityRequest) *v1alpha1.PeeringToken {
	for i := range a.tokens {
		if naming.InvitationAccount(a.tokens[i].UID) == request.Name {
			return &a.tokens[i]
		}
	}
	return nil
}

// choose finds the ForeignCluster that a request belongs to, or plans one
// without a UID, or says why there can be none.
func (a *acquaintances) choose(request *v1alpha1.IdentityRequest) (fc *v1alpha1.ForeignCluster, reason, message string) {
	taken := map[string]bool{}
	for i := range a.clusters {
		known := &a.clusters[i]
		taken[known.Name] = true
		if known.Spec.ClusterID == request.Spec.ClusterID {
			return known, "", ""
		}
	}
	for _, name := range []string{request.Spec.ClusterName, suffixed(request.Spec.ClusterName, naming.ShortID(request.Spec.ClusterID))} {
		if taken[name] {
			continue
		}
		return &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ForeignClusterSpec{
				ClusterID: request.Spec.ClusterID,
				Incoming:  v1alpha1.PeeringEnabled,
				Outgoing:  v1alpha1.PeeringDisabled,
			},
		}, "", ""
	}
	return nil, ReasonNameTaken, "Other clusters of that name are known here: give the consumer another name."
}

func suffixed(name, suffix string) string {
	if room := maxClusterName - len(suffix) - 1; len(name) > room {
		name = strings.TrimRight(name[:room], "-")
	}
	return name + "-" + suffix
}
