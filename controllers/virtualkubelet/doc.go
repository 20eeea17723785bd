// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtualkubelet makes one provider look like a node: it keeps the
// Node of a VirtualNode, turns the pods that are bound to it into shadow pods
// on the provider, brings their statuses back, and serves the kubelet's API
// for them.
//
// What happens to a pod is decided in one place, Pods.reconcile, from what the
// caches hold of its two sides. The node and its lease are kept by the library
// virtual-kubelet; its pod controller would keep each pod twice beside the cache
// and ask after pods that this package looks at anyhow.
//
// What pods need beside themselves is decided as one pass over one object and
// its copy on the provider, in objects.reconcile, for every kind alike.
package virtualkubelet
