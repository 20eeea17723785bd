// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package naming has the names of what is created for a peering or an offloaded namespace:
// namespaces, nodes, accounts and Secrets. Both clusters, and all components of one, compute
// the same names.
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

// TenantNamespace is the namespace on a provider that the foreign cluster,
// its consumer, may see and touch.
func TenantNamespace(foreignCluster string) string { return tenantPrefix + foreignCluster }

// PeerNamespace is the namespace where a consumer keeps its own intent,
// mirrors and Secrets about the foreign cluster, its provider.
func PeerNamespace(foreignCluster string) string { return peerPrefix + foreignCluster }

// IsTenantNamespace reports whether a namespace is a consumer's on a provider.
func IsTenantNamespace(namespace string) bool { return strings.HasPrefix(namespace, tenantPrefix) }

// IsPeerNamespace reports whether a namespace holds what a consumer knows of a
// provider.
func IsPeerNamespace(namespace string) bool { return strings.HasPrefix(namespace, peerPrefix) }

// ForeignClusterOf is the foreign cluster that a tenant or peer namespace
// belongs to, and empty for any other namespace.
func ForeignClusterOf(namespace string) string {
	for _, prefix := range []string{tenantPrefix, peerPrefix} {
		if name, ok := strings.CutPrefix(namespace, prefix); ok {
			return name
		}
	}
	return ""
}

// NodeName is the name of the first virtual node of the foreign cluster.
func NodeName(foreignCluster string) string { return v1alpha1.VirtualNodePrefix + foreignCluster }

// VirtualKubelet is the name of the Deployment, and of the account, of the
// virtual kubelet that keeps a virtual node.
func VirtualKubelet(virtualNode string) string { return kubeletPrefix + virtualNode }

// AccountOnNode says that a service account of a namespace has pods on a
// virtual node of a provider. None of these names has a colon in it.
func AccountOnNode(peerNamespace, virtualNode, account string) string {
	return peerNamespace + ":" + VirtualKubelet(virtualNode) + ":" + account
}

// ShortID is a short form of a cluster id, for names.
func ShortID(clusterID string) string { return hash(clusterID)[:shortIDLength] }

// RemoteNamespace is the name of a namespace's twins, as its owner wants it.
func RemoteNamespace(namespace string, spec *v1alpha1.NamespaceOffloadingSpec, clusterName, clusterID string) string {
	switch spec.NamespaceMappingStrategy {
	case v1alpha1.EnforceSameName:
		return namespace
	case v1alpha1.SelectedName:
		return spec.RemoteNamespaceName
	}
	return UniqueRemoteNamespace(namespace, clusterName, clusterID)
}

// UniqueRemoteNamespace names the twin of a namespace after the consumer's name
// and id, so that twins of different consumers never meet. What does not fit
// into a DNS label is cut, and a hash of the whole takes its place.
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
