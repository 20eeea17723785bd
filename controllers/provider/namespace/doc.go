// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespace creates, bounds and removes remote namespaces: the namespaces on a
// provider that its consumers request in the entries of their NamespaceMaps.
package namespace
