// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commit writes the changes of a reconcile in one patch, of the object or of its status.
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

// Patcher is the part of a generated client that Commit uses.
type Patcher[T runtime.Object] interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions,
		subresources ...string,
	) (T, error)
}

// ErrBothChanged is returned if a reconcile changed an object and its status, which is a programming error.
var ErrBothChanged = errors.New("an object and its status were changed in one reconcile")

// Commit patches an object, or its status, from old to desired, and reports whether they differ. The patch contains the
// UID and the resourceVersion of old, so that it fails with a conflict if another client changed or replaced the
// object. It fails with ErrBothChanged if the object and its status differ.
func Commit[T runtime.Object](ctx context.Context, client Patcher[T], old, desired T) (bool, error) {
	oldObject, oldStatus, err := split(old)
	if err != nil {
		return false, err
	}
	desiredObject, desiredStatus, err := split(desired)
	if err != nil {
		return false, err
	}
	objectPatch, err := jsonpatch.CreateMergePatch(oldObject, desiredObject)
	if err != nil {
		return false, fmt.Errorf("comparing %T: %w", old, err)
	}
	statusPatch, err := jsonpatch.CreateMergePatch(oldStatus, desiredStatus)
	if err != nil {
		return false, fmt.Errorf("comparing the status of %T: %w", old, err)
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

func send[T runtime.Object](
	ctx context.Context, client Patcher[T], kind, part string, old T, patch []byte, subresources ...string,
) error {
	accessor, err := meta.Accessor(old)
	if err != nil {
		return err
	}
	patch, err = withPrecondition(patch, accessor)
	if err != nil {
		return fmt.Errorf("encoding the patch of %s %s: %w", kind, accessor.GetName(), err)
	}
	metrics.CountPatch(kind, part)
	_, err = client.Patch(
		ctx, accessor.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return fmt.Errorf("patching the %s of %s %s: %w", part, kind, accessor.GetName(), err)
	}
	return nil
}

// withPrecondition adds the UID and the resourceVersion of the object to a patch, so that the API server refuses the
// patch with a conflict if the object changed.
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

// split returns the JSON of an object without its status, and of the status alone.
func split(object runtime.Object) (rest, status []byte, err error) {
	all, err := json.Marshal(object)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	var content map[string]json.RawMessage
	if err := json.Unmarshal(all, &content); err != nil {
		return nil, nil, fmt.Errorf("decoding %T: %w", object, err)
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
