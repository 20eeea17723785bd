// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node maintains the Node of a VirtualNode and its lease, by the library virtual-kubelet, and checks the
// provider. Of several virtual kubelets of a node it lets one lead.
package node
