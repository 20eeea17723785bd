// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/trust"
)

// Reasons of the condition VirtualKubeletAvailable of a VirtualNode.
const (
	// ReasonNoImage means that the controller manager has no image for virtual kubelets. Set --virtual-kubelet-image.
	ReasonNoImage = "NoImage"
	// ReasonDeploying means that the virtual kubelet is starting.
	ReasonDeploying = "Deploying"
	// ReasonKubeletAvailable means that the virtual kubelet runs.
	ReasonKubeletAvailable = "Available"
	// ReasonClusterRoleBindingConflict means that the ClusterRoleBinding for the virtual kubelet exists, and belongs to
	// another virtual node. Create the virtual node with another name.
	ReasonClusterRoleBindingConflict = "ClusterRoleBindingConflict"
	// ReasonCordoned means that no virtual kubelet is deployed for a new virtual node while the ForeignCluster is
	// cordoned. See docs/peerings.md#cordon-a-cluster.
	ReasonCordoned = "Cordoned"
)

// Reasons of the condition Ready of a VirtualNode.
const (
	// ReasonNodeMissing means that the Node does not exist yet.
	ReasonNodeMissing = "NodeMissing"
	// ReasonNodeReady means that the Node is ready.
	ReasonNodeReady = "NodeReady"
	// ReasonNodeNotReady means that the Node is not ready. See the condition Ready of the Node.
	ReasonNodeNotReady = "NodeNotReady"
)

// Reasons of the condition NetworkReady of a VirtualNode.
const (
	// ReasonNetworkReady means that pods of the two clusters reach each other.
	ReasonNetworkReady = "NetworkReady"
	// ReasonNoNetwork means that no network to the provider is established. See docs/network-troubleshooting.md.
	ReasonNoNetwork = "NoNetwork"
	// ReasonPodRangesUnknown means that the trust in the provider is Tenant, networking is Flat, and the range of local
	// pods is unknown, or derived from running pods, so that the provider could report addresses of local pods. Set
	// network.podCIDRs.
	ReasonPodRangesUnknown = "PodRangesUnknown"
)

// observeAPIAccess sets the access of pods on the node to the consumer's API server. It changes nothing if fc is nil
// because the ForeignCluster does not exist.
func (r *Reconciler) observeAPIAccess(virtual *v1alpha1.VirtualNode, fc *v1alpha1.ForeignCluster) {
	switch {
	case fc == nil:
	case r.VirtualKubelet.ConsumerAPIServer == "":
		virtual.Status.APIAccess = v1alpha1.APIAccessDisabled
	default:
		virtual.Status.APIAccess = trust.APIAccess(fc, r.APIAccess)
	}
}

// observeNetwork sets the condition NetworkReady and the remapped CIDRs of both clusters in the status. fc is nil if
// the ForeignCluster does not exist.
func (r *Reconciler) observeNetwork(
	ctx context.Context, virtual *v1alpha1.VirtualNode, fc *v1alpha1.ForeignCluster,
) error {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionNetworkReady, Status: metav1.ConditionFalse, ObservedGeneration: virtual.Generation,
		Reason: ReasonNoNetwork,
		Message: "The pods of the two clusters cannot reach each other, so endpoints of Services are not reflected. " +
			"See spec.networking of the ForeignCluster.",
	}
	virtual.Status.Network = nil
	if fc != nil && cmp.Or(fc.Spec.Networking, r.Networking) == v1alpha1.NetworkingTunnel {
		tunnel := &v1alpha1.TunnelEndpoint{}
		err := r.managed.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: fc.Name}, tunnel)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		// An empty network, unlike nil, means that no address is reachable, because the clusters have not agreed on
		// ranges yet.
		virtual.Status.Network = &v1alpha1.VirtualNodeNetwork{}
		if err == nil && tunnel.Spec.ClusterID == virtual.Spec.ClusterID {
			virtual.Status.Network.Local, virtual.Status.Network.Remote = tunnel.Spec.Local, tunnel.Spec.Remote
		}
	}
	if fc != nil && fc.Status.Networking == v1alpha1.PeeringEstablished {
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonNetworkReady
		condition.Message = "The pods of both clusters reach each other."
		known, err := r.podsKnown(ctx, fc)
		if err != nil {
			return err
		}
		if !known {
			condition.Status, condition.Reason = metav1.ConditionFalse, ReasonPodRangesUnknown
			condition.Message = "Addresses of the provider's pods are not accepted, and endpoints of Services are not " +
				"reflected, because the provider could report addresses of local pods: ClusterInfo " +
				v1alpha1.ClusterInfoName + " has no CIDR of pods, or one that is derived from running pods. " +
				"Set network.podCIDRs."
		}
	}
	meta.SetStatusCondition(&virtual.Status.Conditions, condition)
	return nil
}

// podsKnown reports whether addresses of local pods can be refused if the provider reports them. It is true with trust
// SameOwner, and for networks other than Flat, with which other addresses are refused, too.
func (r *Reconciler) podsKnown(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error) {
	if trust.Of(fc) != v1alpha1.TrustTenant || cmp.Or(fc.Spec.Networking, r.Networking) != v1alpha1.NetworkingFlat {
		return true, nil
	}
	info := &v1alpha1.ClusterInfo{}
	key := client.ObjectKey{Name: v1alpha1.ClusterInfoName}
	if err := r.Client.Get(ctx, key, info); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading ClusterInfo %s: %w", v1alpha1.ClusterInfoName, err)
	}
	var refused []netip.Prefix
	for _, cidr := range r.RefusedEndpointCIDRs {
		// The controller manager starts only with valid CIDRs.
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			refused = append(refused, prefix)
		}
	}
	return netmap.PodsKnown(info, refused), nil
}

// observeClasses copies, from the offer to the status, the IngressClasses and load balancer classes that reflected
// objects may name, and the granted storage with its StorageClasses.
func observeClasses(virtual *v1alpha1.VirtualNode, offer *v1alpha1.ResourceOffer) {
	status := &virtual.Status
	status.IngressClasses, status.LoadBalancerClasses = offer.Spec.IngressClasses, offer.Spec.LoadBalancerClasses
	status.Storage, status.StorageClasses = nil, nil
	if granted, classes := quota.StorageGranted([]*v1alpha1.ResourceOffer{offer}); len(granted) > 0 {
		status.Storage, status.StorageClasses = granted, classes
	}
}

func kubeletCondition(virtual *v1alpha1.VirtualNode, deployment *appsv1.Deployment, problem *problem) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionVirtualKubeletAvailable, Status: metav1.ConditionFalse,
		ObservedGeneration: virtual.Generation, Reason: ReasonDeploying,
		Message: fmt.Sprintf("Deployment %s is starting.", kubeletName(virtual)),
	}
	switch {
	case problem != nil:
		condition.Reason, condition.Message = problem.reason, problem.message
	case deployment != nil && deployment.Status.AvailableReplicas > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonKubeletAvailable
		condition.Message = fmt.Sprintf("Deployment %s is available.", deployment.Name)
	}
	return condition
}

// readyCondition returns the condition Ready of a virtual node. node is its Node, or nil if that does not exist.
func readyCondition(virtual *v1alpha1.VirtualNode, node *corev1.Node) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: virtual.Generation,
		Reason: ReasonNodeMissing, Message: fmt.Sprintf("Node %s does not exist yet.", virtual.Spec.NodeName),
	}
	if node == nil {
		return condition
	}
	condition.Reason, condition.Message = ReasonNodeNotReady, fmt.Sprintf("Node %s is not Ready.", node.Name)
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		condition.Status = metav1.ConditionStatus(c.Status)
		if c.Status == corev1.ConditionTrue {
			condition.Reason, condition.Message = ReasonNodeReady, fmt.Sprintf("Node %s is Ready.", node.Name)
		} else if c.Message != "" {
			condition.Message = fmt.Sprintf("Node %s is not Ready: %s", node.Name, c.Message)
		}
	}
	return condition
}
