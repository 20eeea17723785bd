// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods creates a shadow pod for each pod of a virtual node and writes the status of the remote pod to the local
// pod. Controller.reconcile decides from the caches of both clusters; the files create.go, update.go, delete.go and so
// on have its steps. State that is not in the caches is in podState.
//
// The pod controller of the library virtual-kubelet is not used: it would keep two more copies of each pod and read
// each pod from the API server.
package pods
