// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kit has what all controllers share: the controller-runtime manager and its metrics, restricted caches,
// sources of reconcile requests, one patch in each reconcile, and deletion by UID.
package kit
