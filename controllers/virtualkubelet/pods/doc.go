// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods reconciles the pods of a virtual node with their shadow pods. Controller.reconcile decides from the
// caches of both clusters; its steps are in the files with their names. State in addition to the caches is in podState.
//
// The pod controller of virtual-kubelet is not used: it would hold two more copies of each pod and read each pod again.
package pods
