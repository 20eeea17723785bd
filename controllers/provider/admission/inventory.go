// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// maxClusterName is the maximum length of a ForeignCluster's name.
const maxClusterName = 40

// inventory has all ForeignClusters, IdentityRequests and PeeringTokens of this cluster.
type inventory struct {
	clusters []v1alpha1.ForeignCluster
	requests []v1alpha1.IdentityRequest
	tokens   []v1alpha1.PeeringToken
}

// inventory lists the objects at the API server. With an outdated cache, two IdentityRequests of one
// consumer could both be admitted.
func (r *Reconciler) inventory(ctx context.Context) (*inventory, error) {
	var clusters v1alpha1.ForeignClusterList
	if err := r.Live.List(ctx, &clusters); err != nil {
		return nil, err
	}
	var requests v1alpha1.IdentityRequestList
	if err := r.Live.List(ctx, &requests); err != nil {
		return nil, err
	}
	var tokens v1alpha1.PeeringTokenList
	if err := r.Live.List(ctx, &tokens); err != nil {
		return nil, err
	}
	return &inventory{clusters: clusters.Items, requests: requests.Items, tokens: tokens.Items}, nil
}

// invitation returns the PeeringToken with which an IdentityRequest was created; nil if it was deleted.
func (all *inventory) invitation(request *v1alpha1.IdentityRequest) *v1alpha1.PeeringToken {
	for i := range all.tokens {
		if naming.InvitationAccount(all.tokens[i].UID) == request.Name {
			return &all.tokens[i]
		}
	}
	return nil
}

// ownedBy returns the IdentityRequests that a ForeignCluster owns.
func (all *inventory) ownedBy(fc *v1alpha1.ForeignCluster) []*v1alpha1.IdentityRequest {
	var owned []*v1alpha1.IdentityRequest
	for i := range all.requests {
		if metav1.IsControlledBy(&all.requests[i], fc) {
			owned = append(owned, &all.requests[i])
		}
	}
	return owned
}

// choose returns the ForeignCluster for an IdentityRequest: the existing one with the cluster ID of the
// consumer, or a new one, which has no UID. If neither is possible, it returns the reason and message of
// the refusal.
func (all *inventory) choose(
	request *v1alpha1.IdentityRequest,
) (fc *v1alpha1.ForeignCluster, reason, message string) {
	taken := map[string]bool{}
	for i := range all.clusters {
		cluster := &all.clusters[i]
		taken[cluster.Name] = true
		if cluster.Spec.ClusterID == request.Spec.ClusterID {
			return cluster, "", ""
		}
	}
	name := request.Spec.ClusterName
	for _, name := range []string{name, suffixed(name, naming.ShortID(request.Spec.ClusterID))} {
		if taken[name] {
			continue
		}
		return &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{v1alpha1.AnnotationIdentityRequest: request.Name},
			},
			Spec: v1alpha1.ForeignClusterSpec{
				ClusterID: request.Spec.ClusterID,
				Incoming:  v1alpha1.PeeringEnabled,
				Outgoing:  v1alpha1.PeeringDisabled,
			},
		}, "", ""
	}
	return nil, ReasonNameTaken, "ForeignClusters of other clusters have the name of this consumer: rename the consumer."
}

// suffixed returns name with suffix; name is shortened so that the result has at most maxClusterName
// characters.
func suffixed(name, suffix string) string {
	if room := maxClusterName - len(suffix) - 1; len(name) > room {
		name = strings.TrimRight(name[:room], "-")
	}
	return name + "-" + suffix
}
