// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles a virtual kubelet from its packages, with its command, options and clients. A virtual
// kubelet makes one provider a node: it maintains the Node of a VirtualNode, creates shadow pods on the provider for
// the pods that are bound to it, writes their statuses back, reflects the objects that they use, and serves the
// kubelet's API for them.
package app
