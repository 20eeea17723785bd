// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subresource implements what the subresources peer, offload and move have in common. Such a subresource is a
// view of its parent: it has the parent's name, namespace, uid and resourceVersion, and its writes are writes to the
// parent.
//
// Such a subresource
//   - checks uid and resourceVersion of its body as preconditions on the parent
//     (CheckName, CheckPreconditions, CheckDeletePreconditions);
//   - returns the same result for a repeated POST, and for a POST that contradicts the parent
//     Conflict with a cause for each field (Contradiction);
//   - changes no field that another field manager applied (CheckManagers), and refuses
//     server-side apply (RefuseApply);
//   - retries a write that lost a race, and returns TooManyRequests with Retry-After for a temporary
//     refusal (Settle, Deleting, Busy);
//   - passes dryRun on to every write, and returns a plan for a dry run (package plan).
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

// Parent is the part of the store of a parent that its subresources need.
type Parent interface {
	rest.Getter
	rest.CreaterUpdater
	rest.GracefulDeleter
}

// Metadata returns those fields of a parent's metadata that its subresources return.
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

// RefuseApply returns MethodNotAllowed for server-side apply of a subresource: it would own fields that server-side
// apply of the parent owns.
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
