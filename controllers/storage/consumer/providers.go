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
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
)

// isVirtualNode reports whether a Node is a virtual node, by its label.
func isVirtualNode(node *corev1.Node) bool {
	return node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode
}

// virtualNode returns the VirtualNode of the Node with this name, or nil if there is none.
func (c *Config) virtualNode(ctx context.Context, node string) (*v1alpha1.VirtualNode, error) {
	var all v1alpha1.VirtualNodeList
	if err := c.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing virtual nodes: %w", err)
	}
	for i := range all.Items {
		if all.Items[i].Spec.NodeName == node && naming.IsPeerNamespace(all.Items[i].Namespace) {
			return &all.Items[i], nil
		}
	}
	return nil, nil
}

// remoteNamespace returns the name of a namespace's remote namespace on a provider. It fails with a refusal if the
// remote namespace does not exist or is not ready.
func (c *Config) remoteNamespace(ctx context.Context, cluster, namespace string) (string, error) {
	mapped, err := c.namespaceMap(ctx, cluster)
	if err != nil {
		return "", err
	}
	if mapped != nil {
		for _, answer := range mapped.Status.Namespaces {
			if answer.Name == namespace && answer.Phase == v1alpha1.NamespaceMappingReady {
				return answer.RemoteName, nil
			}
		}
	}
	return "", refuse("Namespace %s is not offloaded to %s: select the cluster in its NamespaceOffloading, "+
		"or wait until the remote namespace is ready.", namespace, cluster)
}

// namespaceMap returns this cluster's NamespaceMap for a provider, or nil if it does not exist.
func (c *Config) namespaceMap(ctx context.Context, cluster string) (*v1alpha1.NamespaceMap, error) {
	var mapped v1alpha1.NamespaceMap
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: naming.PeerNamespace(cluster), Name: c.ClusterName}, &mapped)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the NamespaceMap for %s: %w", cluster, err)
	}
	return &mapped, nil
}

// foreignCluster returns the ForeignCluster with a cluster id, or nil if there is none.
func (c *Config) foreignCluster(ctx context.Context, clusterID string) (*v1alpha1.ForeignCluster, error) {
	var all v1alpha1.ForeignClusterList
	if err := c.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing foreign clusters: %w", err)
	}
	index := slices.IndexFunc(all.Items, func(fc v1alpha1.ForeignCluster) bool { return fc.Spec.ClusterID == clusterID })
	if index < 0 {
		return nil, nil
	}
	return &all.Items[index], nil
}

// handleOf returns the volume handle that refers to a ShadowVolumeClaim. Its cluster id is empty if the provider has no
// ForeignCluster, or one without a cluster id.
func (c *Config) handleOf(ctx context.Context, kept shadow) (volume.Handle, error) {
	var cluster v1alpha1.ForeignCluster
	err := c.Client.Get(ctx, types.NamespacedName{Name: kept.cluster}, &cluster)
	if client.IgnoreNotFound(err) != nil {
		return volume.Handle{}, fmt.Errorf("reading foreign cluster %s: %w", kept.cluster, err)
	}
	return volume.Handle{ClusterID: cluster.Spec.ClusterID, Namespace: kept.Namespace, Claim: kept.Name}, nil
}

// missing reports whether a remote namespace no longer exists on its provider: neither spec nor status of the
// NamespaceMap contains it, and the status is of the current generation. It returns false without a NamespaceMap.
func (c *Config) missing(ctx context.Context, at place) (bool, error) {
	mapped, err := c.namespaceMap(ctx, at.cluster)
	if err != nil || mapped == nil {
		return false, err
	}
	named := slices.ContainsFunc(mapped.Status.Namespaces, func(answer v1alpha1.NamespaceMappingStatus) bool {
		return answer.RemoteName == at.namespace
	}) || slices.ContainsFunc(mapped.Spec.Namespaces, func(entry v1alpha1.NamespaceMapping) bool {
		return entry.RemoteName == at.namespace
	})
	return !named && mapped.Status.ObservedGeneration == mapped.Generation, nil
}

// virtualNodesOf returns the VirtualNodes of a provider.
func (c *Config) virtualNodesOf(ctx context.Context, cluster string) ([]*v1alpha1.VirtualNode, error) {
	var all v1alpha1.VirtualNodeList
	if err := c.Client.List(ctx, &all, client.InNamespace(naming.PeerNamespace(cluster))); err != nil {
		return nil, fmt.Errorf("listing the virtual nodes of %s: %w", cluster, err)
	}
	var nodes []*v1alpha1.VirtualNode
	for i := range all.Items {
		nodes = append(nodes, &all.Items[i])
	}
	return nodes, nil
}
