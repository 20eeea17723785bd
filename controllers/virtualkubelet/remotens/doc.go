// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remotens watches the remote namespaces that the NamespaceMap lists, and caches the objects of one virtual
// node in them, without the fields that no code reads.
package remotens
