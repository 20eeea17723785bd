// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package naming computes the names of namespaces, nodes, ServiceAccounts and Secrets of a peering or
// of an offloaded namespace. All components of both clusters compute the same names, so they must not
// change.
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

	// maxNamespaceName is the maximum length of a DNS label (RFC 1123).
	maxNamespaceName = 63
	shortIDLength    = 6
)

// TenantNamespace returns the name of the tenant namespace, on a provider, of the consumer that a
// ForeignCluster represents.
func TenantNamespace(foreignCluster string) string { return tenantPrefix + foreignCluster }

// PeerNamespace returns the name of the peer namespace, on a consumer, of the provider that a
// ForeignCluster represents.
func PeerNamespace(foreignCluster string) string { return peerPrefix + foreignCluster }

// IsTenantNamespace reports whether a namespace is a tenant namespace, by its name.
func IsTenantNamespace(namespace string) bool { return strings.HasPrefix(namespace, tenantPrefix) }

// IsPeerNamespace reports whether a namespace is a peer namespace, by its name.
func IsPeerNamespace(namespace string) bool { return strings.HasPrefix(namespace, peerPrefix) }

// ForeignClusterOf returns the name of the ForeignCluster that a tenant or peer namespace was created
// for, and an empty string for other namespaces.
func ForeignClusterOf(namespace string) string {
	for _, prefix := range []string{tenantPrefix, peerPrefix} {
		if name, ok := strings.CutPrefix(namespace, prefix); ok {
			return name
		}
	}
	return ""
}

// NodeName returns the name of the Node of the VirtualNode with the given name. The VirtualNode of an offer that has no
// spec.nodes has the name of the provider's ForeignCluster.
func NodeName(foreignCluster string) string { return v1alpha1.VirtualNodePrefix + foreignCluster }

// VirtualKubelet returns the name of the Deployment and of the ServiceAccount of the virtual kubelet
// that serves a VirtualNode.
func VirtualKubelet(virtualNode string) string { return kubeletPrefix + virtualNode }

// AccountOnNode returns an element of the annotation AnnotationAccounts: a ServiceAccount that has pods on a virtual
// node. The parts of the element are separated by colons, which no part contains.
func AccountOnNode(peerNamespace, virtualNode, account string) string {
	return peerNamespace + ":" + VirtualKubelet(virtualNode) + ":" + account
}

// ShortID returns the first shortIDLength hexadecimal digits of the hash of a cluster ID, for use in names.
func ShortID(clusterID string) string { return hash(clusterID)[:shortIDLength] }

// RemoteNamespace returns the name of the remote namespaces of an offloaded namespace, as
// spec.namespaceMappingStrategy requires. clusterName and clusterID identify the consumer.
func RemoteNamespace(namespace string, spec *v1alpha1.NamespaceOffloadingSpec, clusterName, clusterID string) string {
	switch spec.NamespaceMappingStrategy {
	case v1alpha1.EnforceSameName:
		return namespace
	case v1alpha1.SelectedName:
		return spec.RemoteNamespaceName
	}
	return UniqueRemoteNamespace(namespace, clusterName, clusterID)
}

// UniqueRemoteNamespace returns a name for a remote namespace from the name of the namespace, and the name and the
// short ID of the consumer, so that remote namespaces of different consumers do not conflict. If the name is too long
// for a DNS label, the part before the short ID is truncated and ends with a hash of the whole name.
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
