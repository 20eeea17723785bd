// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offloading offloads namespaces of a consumer to its providers. One controller
// reconciles NamespaceOffloadings: it labels their namespaces, binds the role of virtual
// kubelets in them, evicts misplaced pods, and reports their state. Another one writes the
// NamespaceMap of each provider, with the remote namespaces that it requests.
package offloading
