// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node maintains the Node of a VirtualNode and its lease with the library virtual-kubelet, and checks the
// provider. It has the Lease for the leader election of the virtual kubelets of a node.
package node
