// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
)

// Peer is a request to peer with a foreign cluster, to change the peering, or
// to end it, with every fact of this cluster that it depends on.
type Peer struct {
	// Is is the foreign cluster as it is, and nil when there is none.
	Is *v1alpha1.ForeignCluster
	// Wanted is the foreign cluster as it is to be. It is never nil; what goes
	// has a deletion timestamp.
	Wanted *v1alpha1.ForeignCluster
	// NewToken reports whether an invitation is to be kept that was not before.
	NewToken bool
	// ClusterID is this cluster's.
	ClusterID string
	// Others are all foreign clusters.
	Others []*v1alpha1.ForeignCluster
	// Namespace has the name of the peer namespace, and Node that of the virtual
	// node; nil where there is none.
	Namespace *corev1.Namespace
	Node      *corev1.Node
	// VirtualNodes are those in the peer namespace.
	VirtualNodes []*v1alpha1.VirtualNode
	// Volumes are the virtual volumes of this cluster.
	Volumes []*v1alpha1.VirtualVolume
	// Policies are what happens to the volumes of a namespace when a cluster is given up,
	// by namespace. The default is Refuse.
	Policies map[string]v1alpha1.UnoffloadPolicy
}

// Plan returns what the request would lead to.
func (r Peer) Plan() *v1alpha1.PeeringPlan {
	plan := &v1alpha1.PeeringPlan{
		Action:         r.action(),
		ForeignCluster: r.Wanted.Name,
		ClusterID:      r.Wanted.Spec.ClusterID,
		Server:         r.Wanted.Spec.Server,
		PeerNamespace:  naming.PeerNamespace(r.Wanted.Name),
		VirtualNode:    naming.NodeName(r.Wanted.Name),
	}
	if !r.isOutgoing() {
		for _, virtualNode := range r.VirtualNodes {
			plan.EvictedPods += virtualNode.Status.Pods
		}
		plan.Volumes = firstVolumes(storedBy(r.Wanted.Name, r.Volumes, func(namespace string) v1alpha1.UnoffloadPolicy {
			return r.Policies[namespace]
		}))
		plan.Unknown = []string{"how long the provider takes to let go of what it lends"}
		return plan
	}
	plan.Conflicts = r.conflicts()
	plan.Unknown = []string{
		"whether the provider accepts the invitation",
		"the tenant namespace at the provider",
		"what the provider offers, which becomes the virtual node",
		"the CIDRs of the provider, and how they have to be remapped",
	}
	if r.Wanted.Spec.ClusterID == "" {
		plan.Unknown = append(plan.Unknown, "the provider's cluster id: whoever answers at the server is believed")
	}
	return plan
}

// isOutgoing reports whether the peering would stand after the request.
func (r Peer) isOutgoing() bool {
	return r.Wanted.DeletionTimestamp.IsZero() && r.Wanted.Spec.Outgoing == v1alpha1.PeeringEnabled
}

func (r Peer) action() v1alpha1.PlanAction {
	switch {
	case r.Is == nil:
		return v1alpha1.PlanCreate
	case !r.Wanted.DeletionTimestamp.IsZero():
		return v1alpha1.PlanDelete
	case r.NewToken || !apiequality.Semantic.DeepEqual(r.Is.Spec, r.Wanted.Spec):
		return v1alpha1.PlanChange
	}
	return v1alpha1.PlanNone
}

// conflicts are what is in the way of the peering in this cluster.
func (r Peer) conflicts() []string {
	var found []string
	id := r.Wanted.Spec.ClusterID
	if id != "" && id == r.ClusterID {
		found = append(found, "The invitation is one of this very cluster: a cluster cannot borrow from itself.")
	}
	for _, other := range r.Others {
		if id != "" && other.Spec.ClusterID == id && other.Name != r.Wanted.Name {
			found = append(found, fmt.Sprintf("ForeignCluster %s has the same cluster id: peer under that name.", other.Name))
		}
	}
	if r.Namespace != nil && !placement.NamespaceBelongs(r.Namespace, r.Wanted.Name, v1alpha1.RolePeer) {
		found = append(found, fmt.Sprintf("Namespace %s is there already and is not of this peering: delete it, or name the ForeignCluster differently.", r.Namespace.Name))
	}
	if r.Node != nil && (id == "" || !placement.NodeBelongs(r.Node, id)) {
		found = append(found, fmt.Sprintf("Node %s is there already and is not of this peering: name the ForeignCluster differently.", r.Node.Name))
	}
	return found
}
