// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource defines a kind of the API in one literal: its names, scope, validation,
// columns, field selectors and limits. A kind without behaviour of its own is a literal in
// this package, in the file of its name. A kind with behaviour has a package next to this
// one, with its literal in the file of its name.
package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/strategy"
)

// Kind defines the objects P of one kind, whose spec is an S and whose status a U.
type Kind[P strategy.Object, S, U any] struct {
	// Resource is the plural and Singular the singular name in the API; ShortNames are
	// the names that kubectl accepts in addition.
	Resource, Singular string
	ShortNames         []string
	// New and NewList return an empty object and an empty list of them.
	New, NewList func() runtime.Object

	// Namespaced is true if the objects are in namespaces.
	Namespaced bool
	// Parts returns the spec and the status of an object.
	Parts func(obj P) (*S, *U)
	// Prepare completes a new object before it is validated. It may be nil.
	Prepare func(obj P)
	// Validate, ValidateUpdate and ValidateStatusUpdate return all errors of a new object,
	// of a new version of one and of a new status. The last one is nil for a kind without
	// status.
	Validate                             func(obj P) field.ErrorList
	ValidateUpdate, ValidateStatusUpdate func(obj, old P) field.ErrorList
	// Warnings returns warnings about an object by itself. It may be nil.
	Warnings func(obj P) []string
	// Surroundings returns warnings about a new spec in this cluster; old is nil for a new
	// object. It may be nil.
	Surroundings func(ctx context.Context, obj, old P) []string
	// DeletionWarnings returns warnings about the deletion of an object. It may be nil.
	DeletionWarnings func(ctx context.Context, obj runtime.Object) []string

	// Columns are the columns that kubectl prints.
	Columns store.Table[P]
	// Fields returns the fields that select an object in addition to its name and
	// namespace; v1alpha1 declares them. It may be nil.
	Fields func(obj P) fields.Set

	// Max is the largest number of objects in one namespace, or in the cluster for a kind
	// without namespaces. 0 means any number.
	Max int
	// Together returns the namespaces that share Max with a namespace; nil means that each
	// has its own.
	Together store.Together
	// Changed is called with each object that was updated or removed; of a removal it may
	// be called twice. It may be nil.
	Changed func(obj runtime.Object, removed bool)
	// Dependent names the dependent of an object that a deletion may not orphan. Empty means
	// that dependents may be orphaned.
	Dependent string
}

// Strategy returns the strategy of the kind, which typer has.
func (k Kind[P, S, U]) Strategy(typer runtime.ObjectTyper) strategy.Strategy[P, S, U] {
	return strategy.New(typer, strategy.Kind[P, S, U]{
		Namespaced:           k.Namespaced,
		Parts:                k.Parts,
		Prepare:              k.Prepare,
		Validate:             k.Validate,
		ValidateUpdate:       k.ValidateUpdate,
		ValidateStatusUpdate: k.ValidateStatusUpdate,
		Warnings:             k.Warnings,
		Surroundings:         k.Surroundings,
	})
}

// Storage returns the storages of the kind and of its status. An error means that the
// storage could not be set up.
func (k Kind[P, S, U]) Storage(
	scheme *runtime.Scheme, getter generic.RESTOptionsGetter,
) (*store.REST, *store.StatusREST, error) {
	strategy := k.Strategy(scheme)
	return k.StorageWith(strategy, strategy.Status(), getter)
}

// StorageWith is Storage with a strategy of the kind's own.
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
