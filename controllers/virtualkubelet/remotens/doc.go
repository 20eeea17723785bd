// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remotens watches the remote namespaces of a virtual node that are in the NamespaceMap, and caches the
// objects in them, trimmed to the fields that are read.
package remotens
