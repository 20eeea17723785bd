// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package verbtest

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// List is a store that is only listed.
type List func() runtime.Object

// List returns what the function does, whatever the options say.
func (l List) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return l(), nil
}
