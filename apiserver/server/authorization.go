// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// AllNamesFirst asks delegate, for a request that names an object, first
// whether the same is allowed for every name, and by name only when that is
// refused. With a delegate that remembers its answers, one answer covers every
// object of a namespace.
//
// It grants nothing more than asking by name does: who may touch all objects
// may touch each. An authorizer that allows all names but denies some has its
// say in kube-apiserver, which authorizes every request by name before it
// hands it on to us.
func AllNamesFirst(delegate authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		if attributes.IsResourceRequest() && attributes.GetName() != "" {
			decision, reason, err := delegate.Authorize(ctx, allNames{attributes})
			// When it cannot be asked there is no sense in asking again.
			if decision == authorizer.DecisionAllow || err != nil {
				return decision, reason, err
			}
		}
		return delegate.Authorize(ctx, attributes)
	})
}

// allNames are the attributes of a request, for whatever object.
type allNames struct {
	authorizer.Attributes
}

// GetName returns the empty name, which stands for all of them.
func (allNames) GetName() string { return "" }
