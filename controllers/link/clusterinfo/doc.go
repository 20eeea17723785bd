// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterinfo detects the ranges of the local cluster, and publishes them with their sources in
// ClusterInfo local, from which all other programs read them.
//
// Sources are read in this order, for each IP family by itself: the objects of the CNI (Calico, Cilium,
// Flannel), the objects of the distribution (kubeadm, k3s), the podCIDRs of the nodes, and, as a last
// resort, the addresses of running pods. Values of the chart override them. A local range that a tunnel
// uses stays in use, and a range by which a tunnel reaches a peer is not used for the local cluster;
// conditions report both cases.
package clusterinfo
