// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

// Reasons of the condition PodsInPlace and events of a NamespaceOffloading and its pods.
const (
	// reasonInPlace means that no pod is misplaced or, while the namespace is unoffloaded, left on a virtual node.
	reasonInPlace = "InPlace"
	// reasonMisplaced means that pods run on nodes that the spec no longer allows, or wait for nodes that only an earlier
	// spec allowed. Restart the pods (kubectl rollout restart), or set spec.enforcement to Evict.
	reasonMisplaced = "Misplaced"
	// reasonEvicting means that pods are being evicted.
	reasonEvicting = "Evicting"
	// reasonEvictionBlocked means that an eviction was refused, for example by a PodDisruptionBudget. Adjust the
	// budget; evictions are retried.
	reasonEvictionBlocked = "EvictionBlocked"
	// reasonInvalidSelector means that spec.clusterSelector is invalid. Correct the field that the message names.
	reasonInvalidSelector = "InvalidSelector"
	// reasonEnding means that the last pods on virtual nodes are terminating.
	reasonEnding = "Ending"
)

// Reasons of the condition Ready of a cluster in the status of a NamespaceOffloading.
const (
	// reasonRemoteNamespaceCreated means that the remote namespace exists.
	reasonRemoteNamespaceCreated = "RemoteNamespaceCreated"
	// reasonPodsRemain means that the cluster is not selected any more and still runs pods of the namespace. The remote
	// namespace is deleted once these pods have ended.
	reasonPodsRemain = "PodsRemain"
	// reasonLeaving means that the cluster is not selected any more and runs no pods of the namespace, but has not
	// begun to delete the remote namespace.
	reasonLeaving = "Leaving"
	// reasonNameTaken means that another offloaded namespace has a remote namespace of the same name. Use another mapping
	// strategy, or unoffload the other namespace.
	reasonNameTaken = "NameTaken"
	// reasonTooManyNamespaces means that 1000 namespaces are offloaded to the cluster, which is the maximum.
	// Unoffload another namespace.
	reasonTooManyNamespaces = "TooManyNamespaces"
	// reasonPending means that the cluster has not created the remote namespace yet.
	reasonPending = "Pending"
)

// Reasons of events on a NamespaceOffloading.
const (
	// reasonEvictionFailed means that a pod could not be evicted. The message has the cause; the eviction is retried.
	reasonEvictionFailed = "EvictionFailed"
	// reasonEvictionTimedOut means that a pod could not be evicted within 200 seconds after the unoffloading of its
	// namespace began, and was deleted.
	reasonEvictionTimedOut = "EvictionTimedOut"
	// reasonRemoteNamespaceLeftBehind means that a provider did not delete the remote namespace within five minutes. It
	// is deleted once the provider is reachable: docs/namespaces.md#unoffload-a-namespace.
	reasonRemoteNamespaceLeftBehind = "RemoteNamespaceLeftBehind"
)

// reasonUnoffloaded of an event on a pod means that the pod was evicted because its namespace is unoffloaded.
const reasonUnoffloaded = "Unoffloaded"
