// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// VirtualVolumeExpansion has the methods of the verb move that client-gen does not
// generate.
type VirtualVolumeExpansion interface {
	// DeleteMove cancels the move of a volume, and returns the view that the verb works
	// on. It does not wait until the move is rolled back.
	DeleteMove(ctx context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Move, error)
}

// DeleteMove cancels the move of a volume, and returns the view that the verb works on.
// It does not wait until the move is rolled back.
func (c *virtualVolumes) DeleteMove(ctx context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Move, error) {
	result := &v1alpha1.Move{}
	err := c.GetClient().Delete().
		Namespace(c.GetNamespace()).
		Resource("virtualvolumes").
		Name(name).
		SubResource("move").
		Body(&opts).
		Do(ctx).
		Into(result)
	return result, err
}
