// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// PatchOffload records that the view was patched, and returns it.
func (c *fakeNamespaceOffloadings) PatchOffload(_ context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (*v1alpha1.Offload, error) {
	empty := &v1alpha1.Offload{}
	obj, err := c.Fake.Invokes(testing.NewPatchSubresourceActionWithOptions(c.Resource(), c.Namespace(), name, pt, data, opts, "offload"), empty)
	if obj == nil {
		return empty, err
	}
	return obj.(*v1alpha1.Offload), err
}

// DeleteOffload records that the view was deleted, and returns it.
func (c *fakeNamespaceOffloadings) DeleteOffload(_ context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Offload, error) {
	empty := &v1alpha1.Offload{}
	obj, err := c.Fake.Invokes(testing.NewDeleteSubresourceActionWithOptions(c.Resource(), "offload", c.Namespace(), name, opts), empty)
	if obj == nil {
		return empty, err
	}
	return obj.(*v1alpha1.Offload), err
}
