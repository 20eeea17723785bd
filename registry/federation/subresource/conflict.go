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

// Difference is one field in which a request contradicts its parent.
type Difference struct {
	// Field is the path of the field.
	Field string
	// Message states the current and the requested value.
	Message string
}

// Differs returns the difference of a field whose requested value is not the current one.
func Differs(field string, current, requested any) Difference {
	return Difference{Field: field, Message: fmt.Sprintf("is %s, not %s", printed(current), printed(requested))}
}

// printed returns a value as text, and "empty" for an empty one.
func printed(value any) string {
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "empty"
}

// ByUpdate is the remedy for a difference in fields that can be changed.
const ByUpdate = "change it by PUT or PATCH of this subresource"

// Contradiction returns 409 for a POST that contradicts an earlier one, with a cause for each
// difference, and the remedy in its message.
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
