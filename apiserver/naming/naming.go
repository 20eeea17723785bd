// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package naming computes the names of objects of a peering or an offloaded namespace: namespaces,
// nodes, service accounts and Secrets. Both clusters, and all components of one, compute the same
// names.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	tenantPrefix = "liqo-tenant-"
	peerPrefix   = "liqo-peer-"

	kubeletPrefix = "federation-virtual-kubelet-"

	// maxNamespaceName is the length of a DNS label, RFC 1123.
	maxNamespaceName = 63
	shortIDLength    = 6
)

// TenantNamespace returns the name of the namespace on a provider for the objects that the foreign
// cluster, its consumer, may read and write.
func TenantNamespace(foreignCluster string) string { return tenantPrefix + foreignCluster }

// PeerNamespace returns the name of the namespace on a consumer for its objects, mirrors and Secrets
// of the foreign cluster, its provider.
func PeerNamespace(foreignCluster string) string { return peerPrefix + foreignCluster }

// IsTenantNamespace reports whether a namespace is a tenant namespace, by its name.
func IsTenantNamespace(namespace string) bool { return strings.HasPrefix(namespace, tenantPrefix) }

// IsPeerNamespace reports whether a namespace is a peer namespace, by its name.
func IsPeerNamespace(namespace string) bool { return strings.HasPrefix(namespace, peerPrefix) }

// ForeignClusterOf returns the name of the foreign cluster of a tenant or peer namespace, and an
// empty string for other namespaces.
func ForeignClusterOf(namespace string) string {
	for _, prefix := range []string{tenantPrefix, peerPrefix} {
		if name, ok := strings.CutPrefix(namespace, prefix); ok {
			return name
		}
	}
	return ""
}

// NodeName returns the name of the first virtual node of the foreign cluster.
func NodeName(foreignCluster string) string { return v1alpha1.VirtualNodePrefix + foreignCluster }

// VirtualKubelet returns the name of the Deployment and of the service account of the virtual kubelet
// of a virtual node.
func VirtualKubelet(virtualNode string) string { return kubeletPrefix + virtualNode }

// AccountOnNode returns a key for a service account that has pods on a virtual node of a provider.
// None of its parts contains a colon.
func AccountOnNode(peerNamespace, virtualNode, account string) string {
	return peerNamespace + ":" + VirtualKubelet(virtualNode) + ":" + account
}

// ShortID returns a short form of a cluster ID, for names.
func ShortID(clusterID string) string { return hash(clusterID)[:shortIDLength] }

// RemoteNamespace returns the name of the remote namespaces of a namespace, by its mapping strategy.
func RemoteNamespace(namespace string, spec *v1alpha1.NamespaceOffloadingSpec, clusterName, clusterID string) string {
	switch spec.NamespaceMappingStrategy {
	case v1alpha1.EnforceSameName:
		return namespace
	case v1alpha1.SelectedName:
		return spec.RemoteNamespaceName
	}
	return UniqueRemoteNamespace(namespace, clusterName, clusterID)
}

// UniqueRemoteNamespace returns a name for a remote namespace that contains the consumer's name and ID,
// so that the remote namespaces of different consumers never conflict. A name that is longer than a DNS label is
// truncated, with a hash of the whole name as suffix.
func UniqueRemoteNamespace(namespace, clusterName, clusterID string) string {
	name := namespace + "-" + clusterName + "-" + ShortID(clusterID)
	if len(name) <= maxNamespaceName {
		return name
	}
	suffix := "-" + hash(name)[:shortIDLength] + "-" + ShortID(clusterID)
	return strings.TrimRight(name[:maxNamespaceName-len(suffix)], "-") + suffix
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
