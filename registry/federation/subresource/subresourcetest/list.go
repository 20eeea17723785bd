// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresourcetest

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// List is a read-only store of a kind.
type List func() runtime.Object

// List returns the result of the function, whatever the options.
func (l List) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return l(), nil
}
