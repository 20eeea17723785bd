// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offloading offloads namespaces of a consumer to its providers: it writes the
// entries of NamespaceMaps, and reports the state of each NamespaceOffloading.
package offloading

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// maxMappings is how many twins one consumer can have on one provider.
	maxMappings = 1000
	// timeout bounds how long leaving a namespace, or tearing down a twin,
	// waits for pods and for the other cluster.
	timeout = time.Duration(v1alpha1.DefaultDisconnectTimeoutSeconds) * time.Second
	// evictionTime is how much of that pods are evicted. What is left then is
	// deleted, and has the rest of the time to end.
	evictionTime = timeout * 2 / 3
	// pollInterval is how often the pods of a namespace that is being left are
	// looked at, which no cache may hold, and how soon those of another one whose
	// cache is new.
	pollInterval = time.Second
	// settle is how long a change of a pod may bring others with it, as that of a
	// Deployment does, before they are looked at together.
	settle = 500 * time.Millisecond
)

var everything = labels.Everything()

// onChange makes a handler for objects that came, went, or differ in what a
// reconcile reads. The old object is nil when the object came or went.
func onChange[T metav1.Object](differ func(old, current T) bool, handle func(old, current T)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { handle(none, obj.(T)) },
		UpdateFunc: func(old, obj any) {
			if differ(old.(T), obj.(T)) {
				handle(old.(T), obj.(T))
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			handle(none, obj.(T))
		},
	}
}

// specDiffers tells whether what is wanted of an object changed, its removal
// included.
func specDiffers[T metav1.Object](old, current T) bool {
	return old.GetGeneration() != current.GetGeneration() ||
		old.GetUID() != current.GetUID() ||
		old.GetDeletionTimestamp().IsZero() != current.GetDeletionTimestamp().IsZero()
}

// always lets every change pass.
func always[T metav1.Object](T, T) bool { return true }
