// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowpod ensures a pod for each ShadowPod on a provider, even while the consumer is unreachable.
// A pod that was deleted is created again, and a pod that has finished is not.
//
// A pod with restart policy Never or OnFailure has finished if its phase is Succeeded or Failed, whatever
// the reason. A pod with restart policy Always does not finish: if its kubelet ends it, for example because
// it was evicted or its node shut down, it is replaced by another pod, with back-off.
//
// If the limits for pods of the consumer refuse a running pod, because they changed, an event and a condition
// of the ShadowPod report that. If the policy for the consumer is Evict, the pod is evicted, and the ShadowPod
// then ends as Failed, so that the pod is not created again.
package shadowpod
