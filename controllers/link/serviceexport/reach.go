// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// consumerReach are the clusters that the Services of an offloaded namespace have endpoints in.
// It locates an endpoint on a virtual node in the cluster of the node.
type consumerReach struct {
	// local is the name of this cluster.
	local string
	// clusters are those that can be reached, with this one.
	clusters []string
	// reachable are the providers whose pods can be reached.
	reachable map[string]bool
	// providers are those of virtual nodes, by the name of the Node.
	providers map[string]string
}

// clusterOf implements locator.
func (c *consumerReach) clusterOf(_ *discoveryv1.EndpointSlice, endpoint *discoveryv1.Endpoint) string {
	provider := c.providers[ptr.Deref(endpoint.NodeName, "")]
	switch {
	case provider == "":
		return c.local
	case c.reachable[provider]:
		return provider
	}
	return ""
}

// reachOfConsumer returns the clusters of an offloaded namespace.
func (r *Reconciler) reachOfConsumer(
	ctx context.Context, offloading *v1alpha1.NamespaceOffloading,
) (*consumerReach, error) {
	reach := &consumerReach{
		local: r.ClusterName, clusters: []string{r.ClusterName}, reachable: map[string]bool{}, providers: map[string]string{},
	}
	for _, cluster := range offloading.Status.Clusters {
		reachable, err := r.reachable(ctx, cluster.Name)
		if err != nil {
			return nil, err
		}
		reach.reachable[cluster.Name] = reachable
		if reachable && meta.IsStatusConditionTrue(cluster.Conditions, v1alpha1.ConditionReady) {
			reach.clusters = append(reach.clusters, cluster.Name)
		}
	}
	var virtualNodes v1alpha1.VirtualNodeList
	if err := r.Client.List(ctx, &virtualNodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range virtualNodes.Items {
		if virtualNode := &virtualNodes.Items[i]; naming.IsPeerNamespace(virtualNode.Namespace) &&
			virtualNode.Spec.NodeName != "" {
			reach.providers[virtualNode.Spec.NodeName] = naming.ForeignClusterOf(virtualNode.Namespace)
		}
	}
	return reach, nil
}

// providerReach are the clusters that the Services of a remote namespace have endpoints in. The
// endpoints that the consumer reflected are in the consumer's cluster: they are there only while
// it can be reached.
type providerReach struct {
	// local and consumer are the names of both clusters.
	local, consumer string
	// clusters are those that can be reached, with this one.
	clusters []string
	// reachable is whether the consumer's pods can be reached.
	reachable bool
}

// clusterOf implements locator.
func (p *providerReach) clusterOf(slice *discoveryv1.EndpointSlice, _ *discoveryv1.Endpoint) string {
	switch {
	case slice.Labels[discoveryv1.LabelManagedBy] != v1alpha1.ManagedBy:
		return p.local
	case p.reachable:
		return p.consumer
	}
	return ""
}

// reachOfProvider returns the clusters of a remote namespace.
func (r *Reconciler) reachOfProvider(ctx context.Context, consumer string) (*providerReach, error) {
	reachable, err := r.reachable(ctx, consumer)
	if err != nil {
		return nil, err
	}
	reach := &providerReach{
		local:     r.ClusterName,
		consumer:  consumer,
		clusters:  []string{r.ClusterName},
		reachable: reachable,
	}
	if reachable {
		reach.clusters = append(reach.clusters, consumer)
	}
	return reach, nil
}

// reachable reports whether the pods of another cluster can be reached.
func (r *Reconciler) reachable(ctx context.Context, cluster string) (bool, error) {
	found := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: cluster}, found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && found.Status.Networking == v1alpha1.PeeringEstablished, err
}
