// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresses allocates addresses at which a provider's pods reach endpoints that are not in the pod CIDRs of the
// consumer: pods on other providers, endpoints of Services that are not pods, and the consumer's API server. Its
// controllers run on the consumer, except ReachReconciler. An AddressMapping in the installation namespace allocates
// each address from AddressPool external for one peer, whose packets to the address pass the consumer's gateway.
//
// Three controllers create AddressMappings: PodReconciler, whose requests name pods, EndpointReconciler, whose
// requests name namespaces, and APIServerReconciler, whose requests name ForeignClusters. They share Addresses.
// ReaderReconciler permits virtual kubelets to read AddressMappings.
//
// ReachReconciler allocates nothing: it lists the local pods that a peer may reach, on the consumer and on the
// provider. It uses the caches of tunnels and offloaded namespaces in Addresses, too.
package addresses
