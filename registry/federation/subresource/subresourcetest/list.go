// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresourcetest

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// List is a store for tests that only lists objects: the result of the function.
type List func() runtime.Object

// List returns the result of the function; it ignores the options.
func (l List) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return l(), nil
}
