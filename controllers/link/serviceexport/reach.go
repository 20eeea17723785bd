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

// consumerReach implements locator on the consumer: an endpoint on a virtual node is in the provider of
// that node, and any other endpoint is in the local cluster.
type consumerReach struct {
	// local is the name of this cluster.
	local string
	// clusters are the names of this cluster, and of the reachable providers that are Ready in the status of the
	// NamespaceOffloading.
	clusters []string
	// reachable maps the name of a provider to whether its pods can be reached.
	reachable map[string]bool
	// providers maps the name of a virtual node to the name of its provider.
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

// reachOfConsumer returns the locator for an offloaded namespace.
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

// providerReach implements locator on a provider: an endpoint in an EndpointSlice that the consumer reflected
// is in the consumer, or unreachable if the consumer is unreachable. Any other endpoint is in the local
// cluster.
type providerReach struct {
	// local and consumer are the names of both clusters.
	local, consumer string
	// clusters are the names of this cluster and, if it is reachable, of the consumer.
	clusters []string
	// reachable is true if the consumer's pods can be reached.
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

// reachOfProvider returns the locator for a remote namespace of a consumer.
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
