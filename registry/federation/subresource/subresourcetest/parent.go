// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subresourcetest has fixtures for tests of subresources: a store of the parent in memory that runs the real
// strategies, sets resource versions and can fail on request.
package subresourcetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/subresource"
)

// Parent is an in-memory store of objects of one kind, by name. It is safe for concurrent use.
type Parent[P resource.Object] struct {
	// Strategy is the strategy of the kind.
	Strategy rest.RESTCreateUpdateStrategy
	// Resource is the resource that errors name.
	Resource schema.GroupResource
	// Empty returns an empty object.
	Empty func() P

	// BeforeCreate and BeforeUpdate are called before a write, unless they are nil. If they return an error, the write
	// fails with it.
	BeforeCreate, BeforeUpdate func() error

	mu      sync.Mutex
	objects map[string]P
	version int
}

// Put stores an object without calling the strategy, for example to set its status.
func (p *Parent[P]) Put(obj P) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store(obj)
}

// Stored returns the object with a name; false if it does not exist.
func (p *Parent[P]) Stored(name string) (P, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	obj, ok := p.objects[name]
	return obj, ok
}

// Writes returns the number of writes, including calls of Put.
func (p *Parent[P]) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

func (p *Parent[P]) store(obj P) P {
	if p.objects == nil {
		p.objects = map[string]P{}
	}
	p.version++
	stored := obj.DeepCopyObject().(P)
	stored.SetResourceVersion(strconv.Itoa(p.version))
	p.objects[obj.GetName()] = stored
	return stored.DeepCopyObject().(P)
}

// New returns an empty object.
func (p *Parent[P]) New() runtime.Object { return p.Empty() }

// Get returns a copy of an object.
func (p *Parent[P]) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	obj, ok := p.Stored(name)
	if !ok {
		return nil, apierrors.NewNotFound(p.Resource, name)
	}
	return obj.DeepCopyObject(), nil
}

// Create stores a new object.
func (p *Parent[P]) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	created := obj.DeepCopyObject().(P)
	rest.FillObjectMetaSystemFields(created)
	if err := rest.BeforeCreate(p.Strategy, ctx, created); err != nil {
		return nil, err
	}
	if err := validate(ctx, created); err != nil {
		return nil, err
	}
	if p.BeforeCreate != nil {
		if err := p.BeforeCreate(); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.objects[created.GetName()]; ok {
		return nil, apierrors.NewAlreadyExists(p.Resource, created.GetName())
	}
	if dryrun.IsDryRun(options.DryRun) {
		return created, nil
	}
	return p.store(created), nil
}

// Update updates an object. It writes nothing if the update changes nothing.
func (p *Parent[P]) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if p.BeforeUpdate != nil {
		if err := p.BeforeUpdate(); err != nil {
			return nil, false, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old, ok := p.objects[name]
	if !ok {
		return nil, false, apierrors.NewNotFound(p.Resource, name)
	}
	obj, err := info.UpdatedObject(ctx, old.DeepCopyObject())
	if err != nil {
		return nil, false, err
	}
	updated := obj.(P)
	if updated.GetResourceVersion() != old.GetResourceVersion() {
		return nil, false, apierrors.NewConflict(p.Resource, name, errors.New("the object has been modified"))
	}
	if err := rest.BeforeUpdate(p.Strategy, ctx, updated, old.DeepCopyObject()); err != nil {
		return nil, false, err
	}
	if err := validate(ctx, updated, old.DeepCopyObject()); err != nil {
		return nil, false, err
	}
	if dryrun.IsDryRun(options.DryRun) || apiequality.Semantic.DeepEqual(updated, old) {
		return updated, false, nil
	}
	return p.store(updated), false, nil
}

// Delete deletes an object. If the object has finalizers, it only sets deletionTimestamp.
func (p *Parent[P]) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, ok := p.objects[name]
	if !ok {
		return nil, false, apierrors.NewNotFound(p.Resource, name)
	}
	if err := subresource.CheckDeletePreconditions(p.Resource, options, old); err != nil {
		return nil, false, err
	}
	if err := validate(ctx, old.DeepCopyObject()); err != nil {
		return nil, false, err
	}
	deleted := old.DeepCopyObject().(P)
	if dryrun.IsDryRun(options.DryRun) {
		return deleted, len(old.GetFinalizers()) == 0, nil
	}
	if len(old.GetFinalizers()) == 0 {
		delete(p.objects, name)
		return deleted, true, nil
	}
	now := metav1.NewTime(time.Now())
	deleted.SetDeletionTimestamp(&now)
	return p.store(deleted), false, nil
}
