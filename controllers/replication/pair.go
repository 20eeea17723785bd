// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is what generated types are.
type object interface {
	runtime.Object
	metav1.Object
}

// side is one of the two clusters, as far as one kind and one namespace are
// concerned.
type side[T object] struct {
	get    func(name string) (T, error)
	create func(ctx context.Context, wanted T) error
	commit func(ctx context.Context, old, wanted T) error
	remove func(ctx context.Context, found T) error
}

// kind is a kind of T with a spec S and a status U.
type kind[T object, S, U any] struct {
	name string
	// empty makes an object of that name.
	empty func(name string) T
	parts func(T) (*S, *U)
	// observed is the generation that a status answers.
	observed   func(*U) *int64
	conditions func(*U) []metav1.Condition
	// checkSpec and cleanStatus look at what may come from a stranger: the one
	// tells what keeps a spec from being copied, the other makes a status fit.
	checkSpec   func(*S) error
	cleanStatus func(*U)
	// complete says what a version means that does not say it; nil if there is no
	// such thing.
	complete func(*S)
}

// sync makes the copy's spec that of the source, then the source's status that
// of the copy: one write a pass.
func sync[T object, S, U any](ctx context.Context, k *kind[T, S, U], name string, source, target side[T]) error {
	owned, err := source.get(name)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	copied, err := target.get(name)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	switch {
	case gone || owned.GetDeletionTimestamp() != nil:
		if missing || copied.GetDeletionTimestamp() != nil {
			return nil
		}
		if err := target.remove(ctx, copied); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the copy of %s %s: %w", k.name, name, err)
		}
		return nil
	case !missing && copied.GetDeletionTimestamp() != nil:
		return nil
	}
	spec, status := k.parts(owned)
	if err := k.checkSpec(spec); err != nil {
		return fmt.Errorf("%s %s is not copied: %w", k.name, name, err)
	}
	if missing {
		copied = k.empty(name)
		copiedSpec, _ := k.parts(copied)
		*copiedSpec = *spec
		if err := target.create(ctx, copied); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("copy %s %s: %w", k.name, name, err)
		}
		return nil
	}
	if copiedSpec, _ := k.parts(copied); !k.same(*spec, *copiedSpec) {
		wanted := copied.DeepCopyObject().(T)
		wantedSpec, _ := k.parts(wanted)
		*wantedSpec = *spec
		return target.commit(ctx, copied, wanted)
	}
	answered := owned.DeepCopyObject().(T)
	_, answer := k.parts(answered)
	*answer = k.answer(copied, status, owned.GetGeneration())
	if equality.Semantic.DeepEqual(status, answer) {
		return nil
	}
	return source.commit(ctx, owned, answered)
}

// same tells whether two specs mean the same, whatever the version of who keeps
// them: of what one does not know it keeps nothing.
func (k *kind[T, S, U]) same(a, b S) bool {
	if k.complete != nil {
		k.complete(&a)
		k.complete(&b)
	}
	return equality.Semantic.DeepEqual(a, b)
}

// answer is the status of a copy as the source should have it. The generations
// that it speaks of are the copy's; the source has its own.
func (k *kind[T, S, U]) answer(copied T, status *U, generation int64) U {
	_, answer := k.parts(copied.DeepCopyObject().(T))
	k.cleanStatus(answer)
	current := *k.observed(answer) >= copied.GetGeneration()
	if current {
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
