// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource defines kinds of the API: names, scope, validation, columns, field selectors and limits. Kinds
// without special behaviour are defined in this package. Any other kind has its own package in the parent directory.
//
// The strategy of every kind implements the creation and update of objects: a request for an object cannot change its
// status, and a request for the status changes nothing else.
package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/registry/federation/store"
)

// Kind defines one kind of the API. P is a pointer to the object type, S is its spec and U its status.
type Kind[P Object, S, U any] struct {
	// Resource is the plural name and Singular the singular name in the API. ShortNames are further names that kubectl
	// accepts.
	Resource, Singular string
	ShortNames         []string
	// New returns an empty object, and NewList an empty list of objects.
	New, NewList func() runtime.Object

	// Namespaced is true if the kind is namespaced.
	Namespaced bool
	// Parts returns pointers to the spec and the status of an object.
	Parts func(obj P) (*S, *U)
	// Prepare sets defaults of a new object before its validation. Nil sets none.
	Prepare func(obj P)
	// PrepareUpdate sets defaults of an updated object before its validation. Nil sets none.
	PrepareUpdate func(obj, old P)
	// Validate returns the errors of a new object, ValidateUpdate of an updated object, including forbidden changes, and
	// ValidateStatusUpdate of an updated status. ValidateStatusUpdate is nil for a kind without status.
	Validate                             func(obj P) field.ErrorList
	ValidateUpdate, ValidateStatusUpdate func(obj, old P) field.ErrorList
	// Warnings returns warnings about valid but unusual values, which depend only on the object. Nil returns none.
	Warnings func(obj P) []string
	// Surroundings returns warnings about a new spec that depend on other objects of this cluster; old is nil for a new
	// object. If another object cannot be read, the warning is omitted, because the request must not fail. Nil returns
	// none.
	Surroundings func(ctx context.Context, obj, old P) []string
	// DeletionWarnings returns warnings about the deletion of an object. Nil returns none.
	DeletionWarnings func(ctx context.Context, obj runtime.Object) []string

	// Columns are the columns that kubectl prints.
	Columns store.Table[P]
	// Fields returns the selectable fields in addition to name and namespace. Package v1alpha1 registers the same
	// fields. Nil means that there are none.
	Fields func(obj P) fields.Set

	// Max is the maximum number of objects: in each namespace for a namespaced kind, and in the cluster otherwise. 0
	// means no limit.
	Max int
	// Together returns the namespaces whose objects count together towards Max. Nil counts each namespace separately.
	Together store.Together
	// Changed is called after an object was updated or removed, possibly twice for the same removal. It may be nil.
	Changed func(obj runtime.Object, removed bool)
	// Dependent describes, in an error, the dependent that the deletion of an object must not orphan, for example "the pod
	// of a shadow pod". If it is empty, deletions may orphan dependents.
	Dependent string
}

// Storage returns the storage of the kind and of its status. It fails if the etcd storage cannot be configured.
func (k Kind[P, S, U]) Storage(
	scheme *runtime.Scheme, getter generic.RESTOptionsGetter,
) (*store.REST, *store.StatusREST, error) {
	strategy := k.Strategy(scheme)
	return k.StorageWith(strategy, strategy.Status(), getter)
}

// StorageWith is Storage with the given strategies instead of the default ones.
func (k Kind[P, S, U]) StorageWith(
	strategy store.Strategy, status rest.UpdateResetFieldsStrategy, getter generic.RESTOptionsGetter,
) (*store.REST, *store.StatusREST, error) {
	kind := store.Kind{
		Resource:         k.Resource,
		Singular:         k.Singular,
		ShortNames:       k.ShortNames,
		New:              k.New,
		NewList:          k.NewList,
		Strategy:         strategy,
		StatusStrategy:   status,
		Table:            k.Columns,
		Max:              k.Max,
		Together:         k.Together,
		Changed:          k.Changed,
		Dependent:        k.Dependent,
		DeletionWarnings: k.DeletionWarnings,
	}
	if k.Fields != nil {
		kind.Fields = func(obj runtime.Object) fields.Set { return k.Fields(obj.(P)) }
	}
	return store.New(kind, getter)
}
