// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresses allocates single addresses for what no tunnel leads to by itself: pods that
// run on one provider are reached by the pods on another provider, endpoints that are no pods by
// the pods on each provider, and the API server of this cluster, the consumer, by all of them.
// Each address is an AddressMapping of AddressPool external in the installation namespace, for
// one ForeignCluster, whose gateways reach the address through the gateway of this cluster.
//
// Each of the three is a controller with keys of its own: pods, namespaces and ForeignClusters.
// They share Addresses, which has the pool, the limit for a tunnel and the reports of failures.
// A fourth one permits virtual kubelets to read AddressMappings.
package addresses
