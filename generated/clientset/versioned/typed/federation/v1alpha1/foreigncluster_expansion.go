// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned/scheme"
)

// ForeignClusterExpansion has the methods of the verb peer that client-gen does not
// make.
type ForeignClusterExpansion interface {
	// PatchPeer patches the view that the verb works on, and returns it.
	PatchPeer(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (*v1alpha1.Peering, error)
	// DeletePeer ends the peering with a foreign cluster, and returns how it stands. It
	// does not wait for the end.
	DeletePeer(ctx context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Peering, error)
}

// PatchPeer patches the view that the verb works on, and returns it.
func (c *foreignClusters) PatchPeer(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (*v1alpha1.Peering, error) {
	result := &v1alpha1.Peering{}
	err := c.GetClient().Patch(pt).
		Resource("foreignclusters").
		Name(name).
		SubResource("peer").
		VersionedParams(&opts, scheme.ParameterCodec).
		Body(data).
		Do(ctx).
		Into(result)
	return result, err
}

// DeletePeer ends the peering with a foreign cluster, and returns how it stands. It does
// not wait for the end.
func (c *foreignClusters) DeletePeer(ctx context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Peering, error) {
	result := &v1alpha1.Peering{}
	err := c.GetClient().Delete().
		Resource("foreignclusters").
		Name(name).
		SubResource("peer").
		Body(&opts).
		Do(ctx).
		Into(result)
	return result, err
}
