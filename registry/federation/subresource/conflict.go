// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresource

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Difference is a field in which a request contradicts the existing parent.
type Difference struct {
	// Field is the path of the field.
	Field string
	// Message states how the current value differs from the requested one.
	Message string
}

// Differs returns the Difference of a field whose requested value differs from the current one.
func Differs(field string, current, requested any) Difference {
	return Difference{Field: field, Message: fmt.Sprintf("is %s, not %s", printed(current), printed(requested))}
}

// printed returns a value as text, or "empty" if that is the empty string.
func printed(value any) string {
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "empty"
}

// ByUpdate is the remedy of a Contradiction in fields that an update can change.
const ByUpdate = "change it with a PUT or PATCH of this subresource"

// Contradiction returns Conflict for a POST whose spec contradicts the existing parent, with a cause for each
// difference. The message ends with remedy, which states what the user can do.
func Contradiction(resource schema.GroupResource, name string, differences []Difference, remedy string) error {
	messages := make([]string, 0, len(differences))
	causes := make([]metav1.StatusCause, 0, len(differences))
	for _, difference := range differences {
		messages = append(messages, difference.Field+": "+difference.Message)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: difference.Field,
			Message: difference.Message})
	}
	conflict := apierrors.NewConflict(resource, name, fmt.Errorf("it exists with another spec (%s); %s",
		strings.Join(messages, "; "), remedy))
	conflict.ErrStatus.Details.Causes = causes
	return conflict
}
