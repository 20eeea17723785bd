// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subresource implements the contract of verbs. A verb is a subresource that is a
// view of its parent: it has the parent's name, namespace, uid and resourceVersion, and
// writes to it are writes to the parent.
//
// A verb
//   - checks uid and resourceVersion of its body as preconditions on the parent
//     (CheckName, CheckPreconditions, CheckDeletePreconditions);
//   - answers a repeated POST with the same result, and a POST that contradicts the parent
//     with 409 and a cause for each field (Contradiction);
//   - changes no field that another manager applies (CheckManagers), and is no target of
//     server-side apply itself (RefuseApply);
//   - retries a write that lost a race, and returns 429 with Retry-After for a temporary
//     refusal (Settle, Deleting, Busy);
//   - passes dryRun=All on to every write, and returns a plan for it (package plan).
package subresource

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
)

// Parent is the part of the store of a parent that its verbs use.
type Parent interface {
	rest.Getter
	rest.CreaterUpdater
	rest.GracefulDeleter
}

// Metadata returns the metadata of a parent as a verb shows it.
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

// RefuseApply returns the answer to a server-side apply on a verb, which would own fields
// that the parent's appliers own: 405.
func RefuseApply(resource schema.GroupResource, name, parent string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusMethodNotAllowed,
		Reason: metav1.StatusReasonMethodNotAllowed,
		Message: fmt.Sprintf("server-side apply is not supported on %s: "+
			"apply the %s %q itself, or create, update or patch this subresource", resource, parent, name),
		Details: &metav1.StatusDetails{Group: federation.GroupName, Kind: resource.Resource, Name: name},
	}}
}
