// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
)

// Reasons of events on pods that wait for data on another cluster.
const (
	// ReasonVolumeClusterUnreachable means that the cluster that stores the data does not answer or is no longer peered;
	// the pod waits for it. See the conditions of the ForeignCluster.
	ReasonVolumeClusterUnreachable = "VolumeClusterUnreachable"
	// ReasonVolumeClusterExcluded means that the NamespaceOffloading does not select the cluster that stores the data.
	// Select the cluster, or move the data.
	ReasonVolumeClusterExcluded = "VolumeClusterExcluded"
	// ReasonVolumeClusterCordoned means that the provider that stores the data offers no pods at the moment, or all its
	// virtual nodes are cordoned. Uncordon the nodes, or move the data.
	ReasonVolumeClusterCordoned = "VolumeClusterCordoned"
)

// warnPods records a warning on each pod without a node that uses the claim, if pods of the namespace cannot be
// scheduled to the cluster with its data, for one of the reasons above. It records one event per state.
func (v *VirtualVolumes) warnPods(ctx context.Context, seen *observation) error {
	waiting := seen.waiting()
	if len(waiting) == 0 {
		return nil
	}
	reason, message, err := v.held(ctx, seen)
	if err != nil {
		return err
	}
	for _, pod := range waiting {
		if reason == "" {
			v.notices.forget(seen.claim.Name, pod.UID)
			continue
		}
		v.notices.recordFor(v.Events, seen.claim.Name, pod, corev1.EventTypeWarning, reason, "%s", message)
	}
	return nil
}

// held returns the reason and the message why pods cannot be scheduled to the cluster with the data of a claim. Both
// are empty if they can.
func (v *VirtualVolumes) held(ctx context.Context, seen *observation) (reason, message string, err error) {
	if seen.handle == nil {
		return "", "", nil
	}
	if cause, text := seen.unreachable(); cause != "" {
		return ReasonVolumeClusterUnreachable,
			fmt.Sprintf("Claim %s: %s The pod is scheduled when the cluster is reachable again.", seen.claim.Name, text), nil
	}
	refusal, err := v.excluded(ctx, seen.claim.Namespace, seen.cluster)
	if err != nil {
		return "", "", err
	}
	if refusal == "" {
		text, err := v.cordoned(ctx, seen)
		if err != nil || text == "" {
			return "", "", err
		}
		return ReasonVolumeClusterCordoned, text, nil
	}
	return ReasonVolumeClusterExcluded, fmt.Sprintf("The data of claim %s is stored on %s, "+
		"where pods of the namespace may not run: %s "+
		"Select the cluster in the NamespaceOffloading, or move the data.", seen.claim.Name, seen.cluster.Name, refusal), nil
}

// cordoned returns a message if no virtual node of the provider accepts pods, otherwise the empty string. A virtual
// node accepts none if it is cordoned, or if its allocatable resource pods is zero, for example while the provider's
// administrator has cordoned this cluster.
func (v *VirtualVolumes) cordoned(ctx context.Context, seen *observation) (string, error) {
	virtualNodes, err := v.virtualNodesOf(ctx, seen.cluster.Name)
	if err != nil {
		return "", err
	}
	var nodes []*corev1.Node
	for _, virtual := range virtualNodes {
		if node := v.node(ctx, virtual.Spec.NodeName); node != nil {
			nodes = append(nodes, node)
		}
	}
	open := func(node *corev1.Node) bool { return !node.Spec.Unschedulable }
	switch {
	case len(nodes) == 0:
		return "", nil
	case !slices.ContainsFunc(nodes, open):
		return fmt.Sprintf("The data of claim %s is stored on %s, whose virtual nodes are cordoned. "+
			"Uncordon them, or move the data by a POST to the subresource move of VirtualVolume %s.",
			seen.claim.Name, seen.cluster.Name, seen.claim.Name), nil
	case !slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return open(node) && placement.OffersPods(node) }):
		return fmt.Sprintf("The data of claim %s is stored on %s, "+
			"whose administrator offers no pods to this cluster at the moment. "+
			"The pod is scheduled when some are offered again.", seen.claim.Name, seen.cluster.Name), nil
	}
	return "", nil
}

// node returns a Node, or nil if it does not exist.
func (v *VirtualVolumes) node(ctx context.Context, name string) *corev1.Node {
	var found corev1.Node
	if v.Client.Get(ctx, client.ObjectKey{Name: name}, &found) != nil {
		// Reading from a cache fails only with NotFound.
		return nil
	}
	return &found
}

// excluded returns the reason why pods of a namespace may not run on a provider; empty if they may.
func (v *VirtualVolumes) excluded(
	ctx context.Context, namespace string, cluster *v1alpha1.ForeignCluster,
) (string, error) {
	var offloading v1alpha1.NamespaceOffloading
	key := types.NamespacedName{Namespace: namespace, Name: v1alpha1.NamespaceOffloadingName}
	err := v.Client.Get(ctx, key, &offloading)
	if apierrors.IsNotFound(err) {
		return "The namespace is not offloaded.", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the namespace offloading: %w", err)
	}
	if offloading.Spec.PodOffloadingStrategy == v1alpha1.Local {
		return "Its podOffloadingStrategy is Local.", nil
	}
	nodes, err := v.virtualNodesOf(ctx, cluster.Name)
	if err != nil {
		return "", err
	}
	provider := placement.Provider{Cluster: cluster, VirtualNodes: nodes}
	node := func(name string) *corev1.Node { return v.node(ctx, name) }
	placement, err := placement.NewPlacement(&offloading.Spec, []placement.Provider{provider}, node)
	if err != nil {
		// The status of the NamespaceOffloading reports the invalid selector.
		return "", nil
	}
	return placement.Choose(provider), nil
}
