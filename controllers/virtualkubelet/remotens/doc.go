// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remotens follows the remote namespaces of a virtual node: which there are, by the NamespaceMap,
// and the caches of the objects in them, which are trimmed to the fields that are read.
package remotens
