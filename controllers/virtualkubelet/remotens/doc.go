// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remotens watches the remote namespaces that the NamespaceMap has for a virtual node's pods, and caches the
// objects in them, without the fields that no code reads.
package remotens
