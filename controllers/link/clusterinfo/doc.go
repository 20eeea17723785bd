// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterinfo detects the ranges of the local cluster and publishes them, with the
// source of each, in ClusterInfo local. Everything else that needs a range of the local
// cluster reads it there.
//
// Sources are read in this order, for each address family by itself: the objects of the CNI
// (Calico, Cilium, Flannel), then those of the distribution (kubeadm, k3s), then the podCIDRs
// of the nodes, and, as a last resort, the addresses of running pods. A value overrides them.
// A range that is in use by a tunnel stays in use, and one that a tunnel already uses for a
// peer is not taken into use: conditions report both.
package clusterinfo
