// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store creates the storage of the kinds of the federation API. The subresource status uses the same etcd
// storage as its parent with another strategy.
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

// Category is the category for kubectl, as in `kubectl get liqo`, of every kind of the federation API.
const Category = "liqo"

// Strategy is the strategy for the creation, update and deletion of objects.
type Strategy interface {
	rest.CreateUpdateResetFieldsStrategy
	rest.RESTDeleteStrategy
}

// Kind defines the storage and the table of one kind.
type Kind struct {
	// Resource is the plural name and Singular the singular name in the API.
	Resource, Singular string
	// ShortNames are further names that kubectl accepts.
	ShortNames []string
	// New returns an empty object, and NewList an empty list of objects.
	New, NewList func() runtime.Object
	// Strategy is the strategy of objects, and StatusStrategy of their status.
	Strategy       Strategy
	StatusStrategy rest.UpdateResetFieldsStrategy
	// Table defines the columns that kubectl prints.
	Table rest.TableConvertor
	// Fields returns the selectable fields in addition to name and namespace. Package v1alpha1 registers the same
	// fields. Nil means that there are none.
	Fields func(obj runtime.Object) fields.Set
	// Max is the maximum number of objects: in each namespace for a namespaced kind, and in the cluster otherwise. 0
	// means no limit.
	Max int
	// Together returns the namespaces whose objects count together towards Max. Nil counts each namespace separately.
	Together Together
	// Changed is called after an object or its status was updated, and after an object was removed, possibly twice for
	// the same removal. It may be nil.
	Changed func(obj runtime.Object, removed bool)
	// Dependent describes, in an error, the dependent that the deletion of an object must not orphan, for example "the pod
	// of a shadow pod". If it is empty, deletions may orphan dependents.
	Dependent string
	// DeletionWarnings returns warnings about the deletion of an object. Nil returns none.
	DeletionWarnings func(ctx context.Context, obj runtime.Object) []string
}

// attributes returns the labels and fields of an object that selectors can match.
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

// New returns the storage of a kind and of its status. It fails if the etcd storage cannot be configured.
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
			// If a graceful deletion is requested again concurrently, the store calls AfterDelete although the object still
			// exists. options then has the remaining grace period of the object.
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

// Delete deletes an object. It fails with BadRequest if the options would orphan Kind.Dependent.
func (r *REST) Delete(
	ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	if err := r.refuseOrphans(options); err != nil {
		return nil, false, err
	}
	return r.Store.Delete(ctx, name, r.warn(deleteValidation), options)
}

// warn returns a deletion validation that calls validate, and then adds Kind.DeletionWarnings to the response, unless
// the object is being deleted already.
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

// DeleteCollection deletes the selected objects. It fails with BadRequest if the options would orphan Kind.Dependent.
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

// ShortNames returns further names that kubectl accepts.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories returns the categories for kubectl.
func (r *REST) Categories() []string { return []string{Category} }

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.CategoriesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// StatusREST serves the subresource status of one kind.
type StatusREST struct {
	store *genericregistry.Store
}

// New returns an empty object of the parent resource.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the store belongs to the parent resource.
func (r *StatusREST) Destroy() {}

// Get returns the whole object.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update updates the status of an existing object. Server-side apply cannot create one.
func (r *StatusREST) Update(
	ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetUpdateStrategy returns the strategy of the status.
func (r *StatusREST) GetUpdateStrategy() rest.RESTUpdateStrategy { return r.store.UpdateStrategy }

// GetResetFields returns the fields that updates of the status do not change, so that server-side apply does not own
// them.
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
