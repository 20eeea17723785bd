// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresource

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// CheckName fails with BadRequest if the body of a request has another name than its path.
func CheckName(name string, body metav1.Object) error {
	if body.GetName() != "" && body.GetName() != name {
		return apierrors.NewBadRequest(fmt.Sprintf("metadata.name of the body is %q, but the path has %q; use the "+
			"same name, or omit metadata.name", body.GetName(), name))
	}
	return nil
}

// CheckPreconditions fails with Conflict if uid or resourceVersion of the body is set and differs from parent. A nil
// parent does not exist, and meets no precondition.
func CheckPreconditions(resource schema.GroupResource, name string, body, parent metav1.Object) error {
	return check(resource, name, body.GetUID(), body.GetResourceVersion(), parent)
}

// CheckDeletePreconditions is CheckPreconditions for the preconditions in the options of a DELETE.
func CheckDeletePreconditions(
	resource schema.GroupResource, options *metav1.DeleteOptions, parent metav1.Object,
) error {
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

func check(
	resource schema.GroupResource, name string, uid types.UID, resourceVersion string, parent metav1.Object,
) error {
	if uid == "" && resourceVersion == "" {
		return nil
	}
	switch {
	case parent == nil:
		return apierrors.NewConflict(resource, name,
			fmt.Errorf("it does not exist, so uid and resourceVersion cannot match; omit both to create it"))
	case uid != "" && uid != parent.GetUID():
		return apierrors.NewConflict(resource, name, fmt.Errorf("its uid is %s, not %s: it was deleted and created again",
			parent.GetUID(), uid))
	case resourceVersion != "" && resourceVersion != parent.GetResourceVersion():
		return apierrors.NewConflict(resource, name,
			fmt.Errorf("its resourceVersion is %s, not %s: it has changed: read it and retry",
				parent.GetResourceVersion(), resourceVersion))
	}
	return nil
}
