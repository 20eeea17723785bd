// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// systemNamespaces are where Kubernetes itself runs.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Offloaded tells whether the pods of a namespace may leave this cluster. Where
// Kubernetes runs they do not, nor in own, the namespaces that the product is
// installed in, whatever their labels say: the admission policies of the chart
// say the same.
func Offloaded(namespace *corev1.Namespace, own ...string) bool {
	return namespace.Labels[v1alpha1.LabelSchedulingEnabled] == "true" && namespace.Labels[v1alpha1.LabelRole] == "" &&
		!slices.Contains(systemNamespaces, namespace.Name) && !slices.Contains(own, namespace.Name)
}
