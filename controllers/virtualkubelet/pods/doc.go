// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods keeps the pods of a virtual node and their shadow pods in line. Controller.reconcile decides from
// the caches of both clusters what happens to a pod; its steps are in files of their names. What is remembered of a
// pod in addition to the caches is one podState, which is dropped as a whole.
//
// virtual-kubelet's pod controller is not used: it would keep each pod twice in addition to the cache, and read pods
// that this package reads anyway.
package pods
