// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// kind describes a replicated kind to replicatePair: its objects T have a spec S and a status U.
type kind[T client.Object, S, U any] interface {
	// title names the kind in errors.
	title() string
	// empty returns an object without content.
	empty() T
	// parts returns pointers to the spec and the status of an object, through which it is changed.
	parts(object T) (*S, *U)
	// observed returns a pointer to the observed generation in a status.
	observed(status *U) *int64
	// conditions returns the conditions of a status.
	conditions(status *U) []metav1.Condition
	// validate returns an error if a spec, which the peer may have written, must not be copied.
	validate(spec *S) error
	// clean removes from a status, which the peer may have written, the values that the local API server
	// refuses.
	clean(status *U)
	// complete sets the defaults of fields that an older version did not store in a spec.
	complete(spec *S)
}

// side reads and writes the objects of one kind in one namespace of the local or the remote cluster. The
// caller must not change objects that it reads.
type side[T client.Object] interface {
	// get returns the cached object with a name.
	get(ctx context.Context, name string) (T, error)
	// create creates an object.
	create(ctx context.Context, wanted T) error
	// commit updates an object from the read version old to the desired version wanted.
	commit(ctx context.Context, old, wanted T) error
	// remove deletes an object with the UID of found. It succeeds if the object does not exist.
	remove(ctx context.Context, found T) error
}

// replicatePair copies the spec of the source to the target, and the status of the target to the source.
// It makes at most one write, whose event causes the next reconcile.
func replicatePair[T client.Object, S, U any](
	ctx context.Context, k kind[T, S, U], name string, source, target side[T],
) error {
	owned, err := source.get(ctx, name)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	copied, err := target.get(ctx, name)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	switch {
	case gone || owned.GetDeletionTimestamp() != nil:
		if missing || copied.GetDeletionTimestamp() != nil {
			return nil
		}
		if err := target.remove(ctx, copied); err != nil {
			return fmt.Errorf("deleting the copy of %s %s: %w", k.title(), name, err)
		}
		return nil
	case !missing && copied.GetDeletionTimestamp() != nil:
		return nil
	}
	spec, status := k.parts(owned)
	if err := k.validate(spec); err != nil {
		return fmt.Errorf("copying %s %s: %w", k.title(), name, err)
	}
	if missing {
		err := target.create(ctx, copyOf(k, name, owned))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("copying %s %s: %w", k.title(), name, err)
		}
		return nil
	}
	if copiedSpec, _ := k.parts(copied); !sameSpec(k, *spec, *copiedSpec) {
		wanted := copied.DeepCopyObject().(T)
		wantedSpec, _ := k.parts(wanted)
		*wantedSpec = *spec
		return target.commit(ctx, copied, wanted)
	}
	answered := owned.DeepCopyObject().(T)
	_, answer := k.parts(answered)
	*answer = answerOf(k, copied, status, owned.GetGeneration())
	if equality.Semantic.DeepEqual(status, answer) {
		return nil
	}
	return source.commit(ctx, owned, answered)
}

// copyOf returns the object to create on the target, with a name and the spec of owned, the object of the source. The
// spec is a deep copy, because the client decodes the response to the create into it.
func copyOf[T client.Object, S, U any](k kind[T, S, U], name string, owned T) T {
	created := k.empty()
	created.SetName(name)
	created.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	spec, _ := k.parts(owned.DeepCopyObject().(T))
	createdSpec, _ := k.parts(created)
	*createdSpec = *spec
	return created
}

// sameSpec reports whether two specs are equal after defaults are set, which an older version may not have
// stored.
func sameSpec[T client.Object, S, U any](k kind[T, S, U], a, b S) bool {
	k.complete(&a)
	k.complete(&b)
	return equality.Semantic.DeepEqual(a, b)
}

// answerOf returns the status to write to the source: the status of the copy, but with observed generations that
// count specs of the source. They are set to generation, the source's present one, if the copy's status describes the
// copy's latest spec, and otherwise stay as in status, the source's present status.
func answerOf[T client.Object, S, U any](k kind[T, S, U], copied T, status *U, generation int64) U {
	_, answer := k.parts(copied.DeepCopyObject().(T))
	k.clean(answer)
	if *k.observed(answer) >= copied.GetGeneration() {
		*k.observed(answer) = generation
	} else {
		*k.observed(answer) = *k.observed(status)
	}
	conditions := k.conditions(answer)
	for i := range conditions {
		conditions[i].ObservedGeneration = *k.observed(answer)
	}
	return *answer
}
