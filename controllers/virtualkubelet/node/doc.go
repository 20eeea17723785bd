// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node maintains the Node of a VirtualNode and the node's Lease with the library virtual-kubelet, and checks
// whether the provider is reachable. It creates the Lease by which the replicas of a node's virtual kubelet elect a
// leader.
package node
