// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresource

import (
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// CheckManagers fails with Conflict if a request changes a field of the parent that another field manager applied and
// would revert. before and after are the versioned parent before and after the request. manager is the field manager of
// the request, which may change fields that it applied itself.
func CheckManagers(resource schema.GroupResource, manager string, before, after metav1.Object) error {
	current, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	requested, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var messages []string
	var causes []metav1.StatusCause
	for _, entry := range before.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Manager == manager ||
			entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		applied := &fieldpath.Set{}
		if err := applied.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("reading the fields that %q applies: %w", entry.Manager, err))
		}
		for path := range applied.Leaves().All() {
			if apiequality.Semantic.DeepEqual(at(current, path), at(requested, path)) {
				continue
			}
			field := strings.TrimPrefix(path.String(), ".")
			messages = append(messages, fmt.Sprintf("%s is applied by %q", field, entry.Manager))
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldManagerConflict, Field: field,
				Message: fmt.Sprintf("conflict with %q", entry.Manager),
			})
		}
	}
	if len(causes) == 0 {
		return nil
	}
	conflict := apierrors.NewConflict(resource, before.GetName(),
		fmt.Errorf("%s; change each field in the manifest that its field manager applies", strings.Join(messages, ", ")))
	conflict.ErrStatus.Details.Causes = causes
	return conflict
}

// at returns the value of an object at a path, or nil if the path does not exist. For a path into a list it returns the
// whole list.
func at(object any, path fieldpath.Path) any {
	for _, element := range path {
		if element.FieldName == nil {
			break
		}
		fields, ok := object.(map[string]any)
		if !ok {
			return nil
		}
		object = fields[*element.FieldName]
	}
	return object
}
