// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// DeleteMove records that a move was cancelled, and returns the view.
func (c *fakeVirtualVolumes) DeleteMove(_ context.Context, name string, opts metav1.DeleteOptions) (*v1alpha1.Move, error) {
	empty := &v1alpha1.Move{}
	obj, err := c.Fake.Invokes(testing.NewDeleteSubresourceActionWithOptions(c.Resource(), "move", c.Namespace(), name, opts), empty)
	if obj == nil {
		return empty, err
	}
	return obj.(*v1alpha1.Move), err
}
