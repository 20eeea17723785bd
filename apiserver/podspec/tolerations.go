// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ForwardTolerations returns those tolerations of a local pod that its shadow pod has. It modifies the slice local. It
// drops tolerations of node conditions, node roles and virtual nodes, which have a meaning in one cluster only, and
// tolerations of all taints, which the provider refuses.
func ForwardTolerations(local []corev1.Toleration) []corev1.Toleration {
	return slices.DeleteFunc(local, func(t corev1.Toleration) bool {
		prefix, _, _ := strings.Cut(t.Key, "/")
		return t.Key == "" || t.Key == v1alpha1.TaintVirtualNode || prefix == "node.kubernetes.io" ||
			prefix == "node-role.kubernetes.io" || prefix == "node.cloudprovider.kubernetes.io"
	})
}
