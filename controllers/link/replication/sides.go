// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/kit"
)

// localSide implements side for the peer namespace of a provider in the local cluster.
type localSide[T client.Object] struct {
	client    client.Client
	namespace string
	// like is an empty object of the kind.
	like T
	// pace limits the rate of writes, which fail with errTooOften.
	pace *pace
}

func (s localSide[T]) get(ctx context.Context, name string) (T, error) {
	object := s.like.DeepCopyObject().(T)
	return object, s.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, object)
}

func (s localSide[T]) create(ctx context.Context, wanted T) error {
	if err := s.pace.permit(s.namespace, s.like); err != nil {
		return err
	}
	wanted.SetNamespace(s.namespace)
	return s.client.Create(ctx, wanted)
}

func (s localSide[T]) commit(ctx context.Context, old, wanted T) error {
	if err := s.pace.permit(s.namespace, s.like); err != nil {
		return err
	}
	_, err := kit.Commit(ctx, s.client, old, wanted)
	return err
}

func (s localSide[T]) remove(ctx context.Context, found T) error {
	if err := s.pace.permit(s.namespace, s.like); err != nil {
		return err
	}
	return kit.Delete(ctx, s.client, found)
}

// lister is the common interface of the generated namespace listers.
type lister[T client.Object] interface {
	List(selector labels.Selector) ([]T, error)
	Get(name string) (T, error)
}

// writer is the common interface of the generated namespaced clients.
type writer[T client.Object] interface {
	commit.Patcher[T]
	Create(ctx context.Context, wanted T, options metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// remoteSide implements side for the tenant namespace of this cluster on a provider.
type remoteSide[T client.Object] struct {
	lister lister[T]
	writer writer[T]
}

func (s remoteSide[T]) get(_ context.Context, name string) (T, error) { return s.lister.Get(name) }

func (s remoteSide[T]) create(ctx context.Context, wanted T) error {
	_, err := s.writer.Create(ctx, wanted, metav1.CreateOptions{})
	return err
}

func (s remoteSide[T]) commit(ctx context.Context, old, wanted T) error {
	_, err := commit.Commit(ctx, s.writer, old, wanted)
	return err
}

func (s remoteSide[T]) remove(ctx context.Context, found T) error {
	err := s.writer.Delete(ctx, found.GetName(), *metav1.NewPreconditionDeleteOptions(string(found.GetUID())))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// emptySide is a source without objects, for which replicatePair deletes the copy. It implements only get of side.
type emptySide[T client.Object] struct {
	side[T]
}

func (emptySide[T]) get(_ context.Context, name string) (T, error) {
	var none T
	return none, apierrors.NewNotFound(v1alpha1.Resource("objects"), name)
}
