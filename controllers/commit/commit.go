// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commit writes what a reconcile changed: one patch a pass, of the
// object or of its status, and none if nothing changed.
package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/controllers/metrics"
)

// Patcher is the part of a generated client that a commit needs.
type Patcher[T runtime.Object] interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// ErrBothChanged says that a reconcile changed spec and status in one pass,
// which is a mistake in its code.
var ErrBothChanged = errors.New("an object and its status were changed in one pass")

// Commit sends the difference between an object as it was read and as it is
// wanted, and tells whether there was one. The patch holds the version that
// was read, so that a change by somebody else in between is a conflict.
func Commit[T runtime.Object](ctx context.Context, client Patcher[T], old, wanted T) (bool, error) {
	oldObject, oldStatus, err := split(old)
	if err != nil {
		return false, err
	}
	wantedObject, wantedStatus, err := split(wanted)
	if err != nil {
		return false, err
	}
	objectPatch, err := jsonpatch.CreateMergePatch(oldObject, wantedObject)
	if err != nil {
		return false, fmt.Errorf("compare %T: %w", old, err)
	}
	statusPatch, err := jsonpatch.CreateMergePatch(oldStatus, wantedStatus)
	if err != nil {
		return false, fmt.Errorf("compare the status of %T: %w", old, err)
	}
	objectChanged, statusChanged := string(objectPatch) != "{}", string(statusPatch) != "{}"
	kind := reflect.TypeOf(old).Elem().Name()
	switch {
	case objectChanged && statusChanged:
		return false, fmt.Errorf("%w: %s", ErrBothChanged, kind)
	case objectChanged:
		return true, send(ctx, client, kind, "object", old, objectPatch)
	case statusChanged:
		return true, send(ctx, client, kind, "status", old, statusPatch, "status")
	}
	return false, nil
}

func send[T runtime.Object](ctx context.Context, client Patcher[T], kind, part string, old T, patch []byte, subresources ...string) error {
	accessor, err := meta.Accessor(old)
	if err != nil {
		return err
	}
	patch, err = withPrecondition(patch, accessor)
	if err != nil {
		return fmt.Errorf("write the patch of %s %s: %w", kind, accessor.GetName(), err)
	}
	metrics.CountPatch(kind, part)
	if _, err := client.Patch(ctx, accessor.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, subresources...); err != nil {
		return fmt.Errorf("patch the %s of %s %s: %w", part, kind, accessor.GetName(), err)
	}
	return nil
}

// withPrecondition adds the uid and the version that the patch is based on.
func withPrecondition(patch []byte, object metav1.Object) ([]byte, error) {
	var content map[string]any
	if err := json.Unmarshal(patch, &content); err != nil {
		return nil, err
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["uid"] = object.GetUID()
	metadata["resourceVersion"] = object.GetResourceVersion()
	content["metadata"] = metadata
	return json.Marshal(content)
}

// split gives an object without its status, and a document that holds the
// status alone.
func split(object runtime.Object) (rest, status []byte, err error) {
	all, err := json.Marshal(object)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %T: %w", object, err)
	}
	var content map[string]json.RawMessage
	if err := json.Unmarshal(all, &content); err != nil {
		return nil, nil, fmt.Errorf("decode %T: %w", object, err)
	}
	statusOnly := map[string]json.RawMessage{}
	if value, ok := content["status"]; ok {
		statusOnly["status"] = value
		delete(content, "status")
	}
	if rest, err = json.Marshal(content); err != nil {
		return nil, nil, err
	}
	status, err = json.Marshal(statusOnly)
	return rest, status, err
}
