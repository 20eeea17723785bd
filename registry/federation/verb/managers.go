// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package verb

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

// CheckManagers refuses a request that would change a field of the parent that
// somebody else applies: the verb and whoever applies the parent would undo
// each other for ever. is and wanted are the parent before and after, in the
// version that it is applied in; manager is who sends the request, and may
// change what it applies itself.
func CheckManagers(resource schema.GroupResource, manager string, is, wanted metav1.Object) error {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(is)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var messages []string
	var causes []metav1.StatusCause
	for _, entry := range is.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Manager == manager || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		applied := &fieldpath.Set{}
		if err := applied.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("reading what %q applies: %w", entry.Manager, err))
		}
		for path := range applied.Leaves().All() {
			if apiequality.Semantic.DeepEqual(at(before, path), at(after, path)) {
				continue
			}
			field := strings.TrimPrefix(path.String(), ".")
			messages = append(messages, fmt.Sprintf("%s is applied by %q", field, entry.Manager))
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: field, Message: fmt.Sprintf("conflict with %q", entry.Manager)})
		}
	}
	if len(causes) == 0 {
		return nil
	}
	conflict := apierrors.NewConflict(resource, is.GetName(), fmt.Errorf("%s; change it where it is applied from", strings.Join(messages, ", ")))
	conflict.ErrStatus.Details.Causes = causes
	return conflict
}

// at is what an object holds at a path, and nil when it holds nothing there.
// A list counts as a whole.
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
