// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offloading offloads namespaces of a consumer to its providers. The Reconciler reconciles
// NamespaceOffloadings: it labels the namespace, binds the role of virtual kubelets in it, evicts
// misplaced pods, and writes the status. The MapReconciler writes the NamespaceMap of each provider,
// which requests the remote namespaces.
package offloading
