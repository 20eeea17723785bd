// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/controllers/commit"
)

// Commit patches an object, or its status, from old to wanted, and reports whether they differ. The patch contains the
// UID and the resourceVersion of old. It fails with Conflict if another client changed the object, and with
// commit.ErrBothChanged if both the object and its status differ.
func Commit[T client.Object](ctx context.Context, writer client.Client, old, wanted T) (bool, error) {
	return commit.Commit(ctx, patcher[T]{client: writer, old: old}, old, wanted)
}

// patcher sends patches of package commit through a controller-runtime client.
type patcher[T client.Object] struct {
	client client.Client
	old    T
}

func (p patcher[T]) Patch(ctx context.Context, _ string, kind types.PatchType, data []byte, _ metav1.PatchOptions,
	subresources ...string,
) (T, error) {
	// The client decodes the response into its argument.
	answer := p.old.DeepCopyObject().(T)
	patch := client.RawPatch(kind, data)
	if len(subresources) == 0 {
		return answer, p.client.Patch(ctx, answer, patch)
	}
	return answer, p.client.SubResource(subresources[0]).Patch(ctx, answer, patch)
}

// Delete deletes an object by its UID, so that a new object of the same name is not affected. It succeeds if the object
// does not exist or was replaced.
func Delete(ctx context.Context, writer client.Client, object client.Object, options ...client.DeleteOption) error {
	options = append(options, client.Preconditions{UID: ptr.To(object.GetUID())})
	err := writer.Delete(ctx, object, options...)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting %T %s: %w", object, client.ObjectKeyFromObject(object), err)
}
