// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Changed returns a predicate that selects each creation and deletion, and those updates
// for which a function reports a change. The replacement of an object by another one of its name
// between two events always is a change.
func Changed[T client.Object](changed func(old, current T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		return update.ObjectOld.GetUID() != update.ObjectNew.GetUID() || changed(update.ObjectOld.(T), update.ObjectNew.(T))
	}}
}

// SpecChanged selects each creation and deletion, and updates of the spec or that begin
// the deletion. It is for kinds whose generation counts the changes of their spec.
func SpecChanged() predicate.Predicate {
	return Changed(func(old, current client.Object) bool {
		return old.GetGeneration() != current.GetGeneration() || DeletionBegan(old, current)
	})
}

// DeletionBegan reports whether the deletion of an object began between two of its states.
func DeletionBegan(old, current client.Object) bool {
	return old.GetDeletionTimestamp().IsZero() != current.GetDeletionTimestamp().IsZero()
}
