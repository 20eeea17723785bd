// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multicluster serves the Multi-Cluster Services API, KEP-1645, in
// offloaded namespaces and in twin namespaces: a Service that is exported at
// home has a ServiceImport in its namespace and in each twin of that, and
// EndpointSlices of it with the endpoints that are in reach.
//
// Both sides are one controller and the same pure functions. They differ in who
// says that a Service is exported: at home a ServiceExport, in a twin a label on
// the copy of the Service, which the virtual kubelet keeps. A peer writes
// nothing of this API.
package multicluster
