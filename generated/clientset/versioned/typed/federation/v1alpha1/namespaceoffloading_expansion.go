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

// NamespaceOffloadingExpansion has the methods of the verb offload that client-gen does not
// make.
type NamespaceOffloadingExpansion interface {
	// PatchOffload patches the view that the verb works on, and returns it.
	PatchOffload(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (*v1alpha1.Offload, error)
	// DeleteOffload brings a namespace home, and returns how it stands. It
	// does not wait for the end.
	DeleteOffload(ctx context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Offload, error)
}

// PatchOffload patches the view that the verb works on, and returns it.
func (c *namespaceOffloadings) PatchOffload(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (*v1alpha1.Offload, error) {
	result := &v1alpha1.Offload{}
	err := c.GetClient().Patch(pt).
		Namespace(c.GetNamespace()).
		Resource("namespaceoffloadings").
		Name(name).
		SubResource("offload").
		VersionedParams(&opts, scheme.ParameterCodec).
		Body(data).
		Do(ctx).
		Into(result)
	return result, err
}

// DeleteOffload brings a namespace home, and returns how it stands. It does
// not wait for the end.
func (c *namespaceOffloadings) DeleteOffload(ctx context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Offload, error) {
	result := &v1alpha1.Offload{}
	err := c.GetClient().Delete().
		Namespace(c.GetNamespace()).
		Resource("namespaceoffloadings").
		Name(name).
		SubResource("offload").
		Body(&opts).
		Do(ctx).
		Into(result)
	return result, err
}
