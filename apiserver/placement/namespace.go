// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// systemNamespaces are the namespaces of Kubernetes.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Offloaded reports whether a namespace has the labels of an offloaded namespace and is not protected.
// Namespaces of Kubernetes and own, the namespaces of the installation, are protected. The admission
// policies in the chart apply the same rule; change both together.
func Offloaded(namespace *corev1.Namespace, own ...string) bool {
	return namespace.Labels[v1alpha1.LabelSchedulingEnabled] == "true" && namespace.Labels[v1alpha1.LabelRole] == "" &&
		!slices.Contains(systemNamespaces, namespace.Name) && !slices.Contains(own, namespace.Name)
}
