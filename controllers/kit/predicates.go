// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Changed returns a predicate that selects all creations and deletions, updates for which changed returns true, and
// updates in which the UID differs: then the object was deleted and created again between two events.
func Changed[T client.Object](changed func(old, current T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		return update.ObjectOld.GetUID() != update.ObjectNew.GetUID() || changed(update.ObjectOld.(T), update.ObjectNew.(T))
	}}
}

// ChangedOrDeleted returns a predicate that selects what Changed selects, except creations.
func ChangedOrDeleted[T client.Object](changed func(old, current T) bool) predicate.Predicate {
	return predicate.And(notCreated, Changed(changed))
}

// CreatedOrDeleted returns a predicate that selects creations and deletions.
func CreatedOrDeleted() predicate.Predicate { return Changed(neverChanged) }

// Created returns a predicate that selects creations.
func Created() predicate.Predicate { return predicate.And(notDeleted, CreatedOrDeleted()) }

// Deleted returns a predicate that selects deletions.
func Deleted() predicate.Predicate { return ChangedOrDeleted(neverChanged) }

var (
	notCreated = predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
	notDeleted = predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}
)

func neverChanged(_, _ client.Object) bool { return false }

// SpecChanged returns a predicate that selects all creations and deletions, changes of metadata.generation, and the
// beginning of a deletion. It is for kinds whose generation counts only changes of the spec.
func SpecChanged() predicate.Predicate {
	return Changed(func(old, current client.Object) bool {
		return old.GetGeneration() != current.GetGeneration() || DeletionBegan(old, current)
	})
}

// DeletionBegan reports whether metadata.deletionTimestamp was set between two states of an object.
func DeletionBegan(old, current client.Object) bool {
	return old.GetDeletionTimestamp().IsZero() != current.GetDeletionTimestamp().IsZero()
}
