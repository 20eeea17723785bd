// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowpod keeps the pod of each ShadowPod on a provider, also while the consumer
// is unreachable. A pod that is lost is created again, and one that has finished never runs
// again.
//
// What counts as finished: a pod of restart policy Never or OnFailure whose phase is
// Succeeded or Failed, whatever the reason. A pod of restart policy Always does not finish:
// when its kubelet ends it, because it was evicted or its node shut down, another one replaces
// it, after a delay that grows each time.
package shadowpod
