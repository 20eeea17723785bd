// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
)

// Object is an API object with metadata. The pointer type of every kind implements it.
type Object interface {
	runtime.Object
	metav1.Object
}

// Strategy implements the creation of objects and the update of their spec. An update leaves the status unchanged, and
// increments metadata.generation if it changes the spec.
type Strategy[P Object, S, U any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind Kind[P, S, U]
}

// StatusStrategy implements the update of the status of objects. It leaves all other fields unchanged, except managed
// fields.
type StatusStrategy[P Object, S, U any] struct {
	Strategy[P, S, U]
}

// Strategy returns the strategy of the kind. The types of the kind must be registered with typer.
func (k Kind[P, S, U]) Strategy(typer runtime.ObjectTyper) Strategy[P, S, U] {
	return Strategy[P, S, U]{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, kind: k}
}

// Status returns the strategy of the kind's subresource status.
func (s Strategy[P, S, U]) Status() StatusStrategy[P, S, U] {
	return StatusStrategy[P, S, U]{Strategy: s}
}

// NamespaceScoped reports whether the kind is namespaced.
func (s Strategy[P, S, U]) NamespaceScoped() bool { return s.kind.Namespaced }

// PrepareForCreate drops the status of a new object, drops its finalizers if a peer sends the request, and calls
// Kind.Prepare.
func (s Strategy[P, S, U]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	created := obj.(P)
	if byPeer(ctx) {
		created.SetFinalizers(nil)
	}
	_, status := s.kind.Parts(created)
	*status = *new(U)
	created.SetGeneration(1)
	if s.kind.Prepare != nil {
		s.kind.Prepare(created)
	}
}

// Validate returns the errors of a new object.
func (s Strategy[P, S, U]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return s.kind.Validate(obj.(P))
}

// WarningsOnCreate returns the warnings about a new object.
func (s Strategy[P, S, U]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	var none P
	return s.warnings(ctx, obj.(P), none)
}

func (s Strategy[P, S, U]) warnings(ctx context.Context, obj, old P) []string {
	var all []string
	if s.kind.Warnings != nil {
		all = append(all, s.kind.Warnings(obj)...)
	}
	if s.kind.Surroundings != nil {
		all = append(all, s.kind.Surroundings(ctx, obj, old)...)
	}
	return all
}

// Canonicalize does nothing, because no kind has alternative representations.
func (s Strategy[P, S, U]) Canonicalize(runtime.Object) {}

// AllowCreateOnUpdate returns false, as for most kinds of Kubernetes: a PUT must not recreate an object that was just
// deleted.
func (s Strategy[P, S, U]) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate returns false: a PUT without a resourceVersion would overwrite
// concurrent changes.
func (s Strategy[P, S, U]) AllowUnconditionalUpdate(context.Context) bool { return false }

// PrepareForUpdate discards the requested changes of the status and, if a peer sends the request, of the finalizers. It
// calls Kind.PrepareUpdate, and increments metadata.generation if the spec changes.
func (s Strategy[P, S, U]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	updated, before := obj.(P), old.(P)
	if byPeer(ctx) {
		updated.SetFinalizers(before.GetFinalizers())
	}
	spec, status := s.kind.Parts(updated)
	oldSpec, oldStatus := s.kind.Parts(before)
	*status = *oldStatus
	if s.kind.PrepareUpdate != nil {
		s.kind.PrepareUpdate(updated, before)
	}
	if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
		updated.SetGeneration(before.GetGeneration() + 1)
	}
}

// ValidateUpdate returns the errors of an updated object.
func (s Strategy[P, S, U]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.kind.ValidateUpdate(obj.(P), old.(P))
}

// WarningsOnUpdate returns warnings about a changed spec, and none if only other fields change, for example a
// finalizer.
func (s Strategy[P, S, U]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	spec, _ := s.kind.Parts(obj.(P))
	oldSpec, _ := s.kind.Parts(old.(P))
	if apiequality.Semantic.DeepEqual(spec, oldSpec) {
		return nil
	}
	return s.warnings(ctx, obj.(P), old.(P))
}

// GetResetFields returns the status: server-side apply of the object neither changes nor owns it.
func (s Strategy[P, S, U]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

// PrepareForUpdate discards the requested changes of all fields except the status and the managed fields, which name
// the writers of the status.
func (s StatusStrategy[P, S, U]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	updated, before := obj.(P), old.(P)
	spec, _ := s.kind.Parts(updated)
	oldSpec, _ := s.kind.Parts(before)
	*spec = *oldSpec

	updated.SetLabels(before.GetLabels())
	updated.SetAnnotations(before.GetAnnotations())
	updated.SetFinalizers(before.GetFinalizers())
	updated.SetOwnerReferences(before.GetOwnerReferences())
	updated.SetGenerateName(before.GetGenerateName())
}

// ValidateUpdate returns the errors of an updated status.
func (s StatusStrategy[P, S, U]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.kind.ValidateStatusUpdate(obj.(P), old.(P))
}

// GetResetFields returns metadata and spec: server-side apply of the status neither changes nor owns them.
func (s StatusStrategy[P, S, U]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("metadata", "spec")
}

func resetFields(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1alpha1.SchemeGroupVersion.String()): set,
	}
}

// byPeer reports whether a peer sends the request. A peer must not change finalizers: those that it adds would block
// the deletion of its tenant namespace, and if it removed those of the local controllers, their cleanup would be
// skipped.
func byPeer(ctx context.Context) bool {
	user, ok := genericapirequest.UserFrom(ctx)
	return ok && identity.IsPeer(user.GetName(), user.GetGroups())
}

// Hold adds the finalizer of the controllers to a new object. A controller might add it too late, after a request to
// delete the object.
func Hold[P Object](obj P) {
	if !slices.Contains(obj.GetFinalizers(), v1alpha1.Finalizer) {
		obj.SetFinalizers(append(obj.GetFinalizers(), v1alpha1.Finalizer))
	}
}

var (
	_ rest.CreateUpdateResetFieldsStrategy = Strategy[Object, any, any]{}
	_ rest.RESTDeleteStrategy              = Strategy[Object, any, any]{}
	_ rest.UpdateResetFieldsStrategy       = StatusStrategy[Object, any, any]{}
)
