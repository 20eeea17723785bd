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

// PatchPeer records that the view was patched, and returns it.
func (c *fakeForeignClusters) PatchPeer(_ context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (*v1alpha1.Peering, error) {
	empty := &v1alpha1.Peering{}
	obj, err := c.Fake.Invokes(testing.NewRootPatchSubresourceActionWithOptions(c.Resource(), name, pt, data, opts, "peer"), empty)
	if obj == nil {
		return empty, err
	}
	return obj.(*v1alpha1.Peering), err
}

// DeletePeer records that the view was deleted, and returns it.
func (c *fakeForeignClusters) DeletePeer(_ context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Peering, error) {
	empty := &v1alpha1.Peering{}
	obj, err := c.Fake.Invokes(testing.NewRootDeleteSubresourceActionWithOptions(c.Resource(), "peer", name, opts), empty)
	if obj == nil {
		return empty, err
	}
	return obj.(*v1alpha1.Peering), err
}
