// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles a virtual kubelet from the packages next to this one, and has its command, options and clients.
// A virtual kubelet maintains the Node of a VirtualNode, creates shadow pods on the provider for the pods bound to that
// Node, updates the statuses of these pods, reflects the objects that they use, and serves the kubelet API.
package app
