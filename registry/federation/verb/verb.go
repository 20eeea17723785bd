// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verb holds what the verbs of the federation API have in common. A
// verb is a subresource that shows its parent from one side: it carries the
// parent's name, namespace, uid and resourceVersion, and what is written to
// it is written to the parent.
package verb

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
)

// Parent is what a verb needs of the store of its parent.
type Parent interface {
	rest.Getter
	rest.CreaterUpdater
	rest.GracefulDeleter
}

// Metadata is the metadata that a verb shows of its parent.
func Metadata(parent metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              parent.GetName(),
		Namespace:         parent.GetNamespace(),
		UID:               parent.GetUID(),
		ResourceVersion:   parent.GetResourceVersion(),
		Generation:        parent.GetGeneration(),
		CreationTimestamp: parent.GetCreationTimestamp(),
		DeletionTimestamp: parent.GetDeletionTimestamp(),
	}
}

// CheckName refuses a body about another object than the path.
func CheckName(name string, body metav1.Object) error {
	if body.GetName() != "" && body.GetName() != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name in the body, %q, is not the one in the path, %q", body.GetName(), name))
	}
	return nil
}

// CheckPreconditions refuses a body that was written for another object of
// that name, or for an older state of it. A parent that does not exist meets
// no precondition; it is nil then.
func CheckPreconditions(resource schema.GroupResource, name string, body, parent metav1.Object) error {
	return check(resource, name, body.GetUID(), body.GetResourceVersion(), parent)
}

// CheckDeletePreconditions does the same for the options of a DELETE.
func CheckDeletePreconditions(resource schema.GroupResource, options *metav1.DeleteOptions, parent metav1.Object) error {
	if options == nil || options.Preconditions == nil {
		return nil
	}
	var uid types.UID
	var resourceVersion string
	if options.Preconditions.UID != nil {
		uid = *options.Preconditions.UID
	}
	if options.Preconditions.ResourceVersion != nil {
		resourceVersion = *options.Preconditions.ResourceVersion
	}
	return check(resource, parent.GetName(), uid, resourceVersion, parent)
}

func check(resource schema.GroupResource, name string, uid types.UID, resourceVersion string, parent metav1.Object) error {
	if uid == "" && resourceVersion == "" {
		return nil
	}
	switch {
	case parent == nil:
		return apierrors.NewConflict(resource, name, fmt.Errorf("it does not exist, so it has no uid and no resourceVersion; leave them out to create it"))
	case uid != "" && uid != parent.GetUID():
		return apierrors.NewConflict(resource, name, fmt.Errorf("its uid is %s, not %s: it was deleted and created again", parent.GetUID(), uid))
	case resourceVersion != "" && resourceVersion != parent.GetResourceVersion():
		return apierrors.NewConflict(resource, name, fmt.Errorf("its resourceVersion is %s, not %s: it was changed meanwhile; read it and try again", parent.GetResourceVersion(), resourceVersion))
	}
	return nil
}

// Difference is one field in which a request contradicts what is there.
type Difference struct {
	// Field is the path of the field.
	Field string
	// Message says what is there and what was asked for.
	Message string
}

// Differs returns the difference of a field that has one value, and is requested to have
// another one.
func Differs(field string, is, wanted any) Difference {
	return Difference{Field: field, Message: fmt.Sprintf("is %s, not %s", printed(is), printed(wanted))}
}

// printed returns a value as a reader sees it, also if nothing is set.
func printed(value any) string {
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "empty"
}

// ByUpdate is the remedy for a contradiction to what can be changed.
const ByUpdate = "change it by PUT or PATCH of this subresource"

// Contradiction is the answer to a POST that requests something else than what was
// requested before: 409 with each difference as a cause, and with the remedy.
func Contradiction(resource schema.GroupResource, name string, differences []Difference, remedy string) error {
	messages := make([]string, 0, len(differences))
	causes := make([]metav1.StatusCause, 0, len(differences))
	for _, difference := range differences {
		messages = append(messages, difference.Field+": "+difference.Message)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: difference.Field, Message: difference.Message})
	}
	conflict := apierrors.NewConflict(resource, name, fmt.Errorf("it exists and requests something else (%s); %s", strings.Join(messages, "; "), remedy))
	conflict.ErrStatus.Details.Causes = causes
	return conflict
}

// RefuseApply is the answer to a server-side apply on a verb, which would own
// fields that the parent's appliers own.
func RefuseApply(resource schema.GroupResource, name, parent string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusMethodNotAllowed,
		Reason:  metav1.StatusReasonMethodNotAllowed,
		Message: fmt.Sprintf("server-side apply is not supported on %s: apply the %s %q itself, or use create, update or patch here", resource, parent, name),
		Details: &metav1.StatusDetails{Group: federation.GroupName, Kind: resource.Resource, Name: name},
	}}
}
