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

// Peer is a request to the verb peer, together with the state of the local cluster that the result
// depends on.
type Peer struct {
	// Current is the ForeignCluster before the request, or nil if it does not exist.
	Current *v1alpha1.ForeignCluster
	// Requested is the ForeignCluster after the request. It is never nil: if the request deletes the object, Requested has
	// a deletionTimestamp.
	Requested *v1alpha1.ForeignCluster
	// NewToken is true if the request stores a new token of an invitation.
	NewToken bool
	// ClusterID is the ID of the local cluster.
	ClusterID string
	// Others are all ForeignClusters of the local cluster. They may include Current.
	Others []*v1alpha1.ForeignCluster
	// Namespace is the existing namespace with the name of the peer namespace, and Node the existing
	// Node with the name of the virtual node for an offer of shape Aggregate, liqo-<ForeignCluster>.
	// Each is nil if it does not exist.
	Namespace *corev1.Namespace
	Node      *corev1.Node
	// VirtualNodes are the VirtualNodes in the peer namespace.
	VirtualNodes []*v1alpha1.VirtualNode
	// Volumes are all VirtualVolumes of the local cluster.
	Volumes []*v1alpha1.VirtualVolume
	// Policies are the values of spec.volumes.onUnoffload of NamespaceOffloadings, by namespace. A
	// namespace without an entry has policy Refuse.
	Policies map[string]v1alpha1.UnoffloadPolicy
}

// Plan returns the plan of the request.
func (r Peer) Plan() *v1alpha1.PeeringPlan {
	plan := &v1alpha1.PeeringPlan{
		Action:         r.action(),
		ForeignCluster: r.Requested.Name,
		ClusterID:      r.Requested.Spec.ClusterID,
		Server:         r.Requested.Spec.Server,
		PeerNamespace:  naming.PeerNamespace(r.Requested.Name),
		VirtualNode:    naming.NodeName(r.Requested.Name),
	}
	if !r.isOutgoing() {
		for _, virtualNode := range r.VirtualNodes {
			plan.EvictedPods += virtualNode.Status.Pods
		}
		plan.Volumes = firstVolumes(storedBy(r.Requested.Name, r.Volumes, func(namespace string) v1alpha1.UnoffloadPolicy {
			return r.Policies[namespace]
		}))
		plan.Unknown = []string{"how long the provider takes to end the peering"}
		return plan
	}
	plan.Conflicts = r.conflicts()
	if plan.Action == v1alpha1.PlanNone {
		return plan
	}
	plan.Unknown = []string{
		"whether the provider accepts the invitation",
		"the tenant namespace on the provider",
		"the resources that the provider offers for the virtual node",
		fmt.Sprintf("the names of the virtual nodes if the offer has shape PerNode, for example %s-1, and conflicts with "+
			"them", plan.VirtualNode),
		"the CIDRs of the provider, and their remapped CIDRs",
	}
	if r.Requested.Spec.ClusterID == "" {
		plan.Unknown = append(plan.Unknown,
			"the cluster ID of the provider: the first cluster that responds at the server is accepted")
	}
	return plan
}

// isOutgoing reports whether the outgoing peering would be enabled after the request.
func (r Peer) isOutgoing() bool {
	return r.Requested.DeletionTimestamp.IsZero() && r.Requested.Spec.Outgoing == v1alpha1.PeeringEnabled
}

func (r Peer) action() v1alpha1.PlanAction {
	switch {
	case r.Current == nil:
		return v1alpha1.PlanCreate
	case !r.Requested.DeletionTimestamp.IsZero():
		return v1alpha1.PlanDelete
	case r.NewToken || !apiequality.Semantic.DeepEqual(r.Current.Spec, r.Requested.Spec):
		return v1alpha1.PlanChange
	}
	return v1alpha1.PlanNone
}

// conflicts returns the reasons for which the local cluster would refuse the peering.
func (r Peer) conflicts() []string {
	var found []string
	id := r.Requested.Spec.ClusterID
	if id != "" && id == r.ClusterID {
		found = append(found, "The invitation was issued by this cluster: a cluster cannot be its own provider.")
	}
	for _, other := range r.Others {
		if id != "" && other.Spec.ClusterID == id && other.Name != r.Requested.Name {
			found = append(found, fmt.Sprintf("ForeignCluster %s has the same cluster ID: peer by using its name.", other.Name))
		}
	}
	if r.Namespace != nil && !placement.NamespaceBelongs(r.Namespace, r.Requested.Name, v1alpha1.RolePeer) {
		found = append(found, fmt.Sprintf("Namespace %s exists and does not belong to this peering: delete it, or use "+
			"another name for the ForeignCluster.", r.Namespace.Name))
	}
	if r.Node != nil && (id == "" || !placement.NodeBelongs(r.Node, id)) {
		found = append(found, fmt.Sprintf("Node %s exists and does not belong to this peering: use another name for the "+
			"ForeignCluster.", r.Node.Name))
	}
	return found
}
