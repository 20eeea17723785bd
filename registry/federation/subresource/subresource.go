// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subresource is the contract of a verb, a subresource that shows its parent from
// one side: it has the parent's name, namespace, uid and resourceVersion, and what is
// written to it is written to the parent.
//
// A verb
//   - checks uid and resourceVersion of its body as preconditions on the parent
//     (CheckName, CheckPreconditions, CheckDeletePreconditions);
//   - answers a repeated POST with the same result, and a POST that contradicts the parent
//     with 409 and a cause for each field (Contradiction);
//   - changes no field that another manager applies (CheckManagers), and is no target of
//     server-side apply itself (RefuseApply);
//   - retries a write that lost a race, and answers what passes by itself with 429 and
//     Retry-After (Settle, Deleting, Busy);
//   - passes dryRun=All on to every write, and answers it with a plan (package plan).
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
			"apply the %s %q itself, or use create, update or patch here", resource, parent, name),
		Details: &metav1.StatusDetails{Group: federation.GroupName, Kind: resource.Resource, Name: name},
	}}
}
