// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store creates the storages of the federation API: each kind is one etcd3 store,
// and its subresource status the same store with another strategy.
package store

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"liqo.io/federation/apiserver/apis/federation"
)

// Category is the category of kubectl for every kind of the federation.
const Category = "liqo"

// Strategy creates, updates and deletes objects.
type Strategy interface {
	rest.CreateUpdateResetFieldsStrategy
	rest.RESTDeleteStrategy
}

// Kind defines how objects of one kind are stored and shown.
type Kind struct {
	// Resource is the plural and Singular the singular name in the API.
	Resource, Singular string
	// ShortNames are the names that kubectl accepts in addition.
	ShortNames []string
	// New and NewList return an empty object and an empty list of them.
	New, NewList func() runtime.Object
	// Strategy creates and updates objects, StatusStrategy their status.
	Strategy       Strategy
	StatusStrategy rest.UpdateResetFieldsStrategy
	// Table prints objects.
	Table rest.TableConvertor
	// Fields returns the fields that select an object in addition to its name and
	// namespace; v1alpha1 declares them. It may be nil.
	Fields func(obj runtime.Object) fields.Set
	// Max is the largest number of objects, in one namespace if the kind is namespaced.
	// 0 means any number.
	Max int
	// Together returns the namespaces that share Max; nil means that each has its own.
	Together Together
	// Changed is called with each object that was updated, also in its status, or removed;
	// of a removal it may be called twice. It may be nil.
	Changed func(obj runtime.Object, removed bool)
	// Dependent names the dependent of an object that a deletion may not orphan. Empty means
	// that dependents may be orphaned.
	Dependent string
	// DeletionWarnings returns warnings about the deletion of an object. It may be nil.
	DeletionWarnings func(ctx context.Context, obj runtime.Object) []string
}

// attributes returns the labels and fields that selectors match.
func (k Kind) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{}
	if k.Fields != nil {
		selectable = k.Fields(obj)
	}
	selectable["metadata.name"] = accessor.GetName()
	if k.Strategy.NamespaceScoped() {
		selectable["metadata.namespace"] = accessor.GetNamespace()
	}
	return accessor.GetLabels(), selectable, nil
}

// REST serves the objects of one kind.
type REST struct {
	*genericregistry.Store
	shortNames []string
	dependent  string
	warnings   func(ctx context.Context, obj runtime.Object) []string
}

// New returns the storages of a kind and of its status. An error means that the storage
// could not be set up, and names the resource.
func New(kind Kind, getter generic.RESTOptionsGetter) (*REST, *StatusREST, error) {
	store := &genericregistry.Store{
		NewFunc:                   kind.New,
		NewListFunc:               kind.NewList,
		DefaultQualifiedResource:  federation.Resource(kind.Resource),
		SingularQualifiedResource: federation.Resource(kind.Singular),
		CreateStrategy:            kind.Strategy,
		UpdateStrategy:            kind.Strategy,
		DeleteStrategy:            kind.Strategy,
		ResetFieldsStrategy:       kind.Strategy,
		TableConvertor:            kind.Table,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter,
		AttrFunc: kind.attributes}); err != nil {
		return nil, nil, fmt.Errorf("setting up the storage of %s: %w", store.DefaultQualifiedResource, err)
	}
	if kind.Max > 0 {
		store.BeginCreate = limit(store, kind.Max, kind.Together)
	}
	if changed := kind.Changed; changed != nil {
		store.AfterUpdate = func(obj runtime.Object, options *metav1.UpdateOptions) {
			if !dryrun.IsDryRun(options.DryRun) {
				changed(obj, false)
			}
		}
		_, graceful := kind.Strategy.(rest.RESTGracefulDeleteStrategy)
		store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
			// Of two concurrent deletions the store calls this for the second one, with the
			// remaining grace period of the object.
			terminating := graceful && ptr.Deref(options.GracePeriodSeconds, 0) > 0
			if !terminating && !dryrun.IsDryRun(options.DryRun) {
				changed(obj, true)
			}
		}
	}
	status := *store
	status.UpdateStrategy = kind.StatusStrategy
	status.ResetFieldsStrategy = kind.StatusStrategy
	return &REST{Store: store, shortNames: kind.ShortNames, dependent: kind.Dependent, warnings: kind.DeletionWarnings},
		&StatusREST{store: &status}, nil
}

// Delete deletes an object together with its dependents.
func (r *REST) Delete(
	ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	if err := r.refuseOrphans(options); err != nil {
		return nil, false, err
	}
	return r.Store.Delete(ctx, name, r.warn(deleteValidation), options)
}

// warn returns a validation that adds the warnings of a deletion to the response once it was
// admitted. There are none for an object that is being deleted already.
func (r *REST) warn(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	if r.warnings == nil {
		return validate
	}
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		accessor, err := meta.Accessor(obj)
		if err != nil || accessor.GetDeletionTimestamp() != nil {
			return err
		}
		for _, text := range r.warnings(ctx, obj) {
			warning.AddWarning(ctx, "", text)
		}
		return nil
	}
}

// DeleteCollection deletes objects together with their dependents.
func (r *REST) DeleteCollection(
	ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions,
	listOptions *internalversion.ListOptions,
) (runtime.Object, error) {
	if err := r.refuseOrphans(options); err != nil {
		return nil, err
	}
	return r.Store.DeleteCollection(ctx, deleteValidation, options, listOptions)
}

func (r *REST) refuseOrphans(options *metav1.DeleteOptions) error {
	//nolint:staticcheck // Clients may send the deprecated field, too.
	if r.dependent != "" && options != nil && (ptr.Deref(options.OrphanDependents, false) ||
		ptr.Deref(options.PropagationPolicy, "") == metav1.DeletePropagationOrphan) {
		return apierrors.NewBadRequest(r.dependent +
			" cannot be orphaned: the propagationPolicy must be Background or Foreground")
	}
	return nil
}

// ShortNames returns the names that kubectl accepts in addition.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories returns the categories of kubectl.
func (r *REST) Categories() []string { return []string{Category} }

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.CategoriesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// StatusREST serves the status of the objects of one kind.
type StatusREST struct {
	store *genericregistry.Store
}

// New returns an empty object.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the store belongs to the parent resource.
func (r *StatusREST) Destroy() {}

// Get returns the object.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update writes the status of an existing object; server-side apply cannot create one.
func (r *StatusREST) Update(
	ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetUpdateStrategy returns the strategy of the status.
func (r *StatusREST) GetUpdateStrategy() rest.RESTUpdateStrategy { return r.store.UpdateStrategy }

// GetResetFields returns the fields that server-side apply ignores.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable returns the table of the parent resource.
func (r *StatusREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}

var (
	_ rest.Patcher             = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
	_ rest.TableConvertor      = &StatusREST{}
)
