// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// AllNamesFirst returns an authorizer that, for a request with the name of an object, first requests a
// decision for all names from delegate, and by name only if that is refused. With a delegate that caches
// decisions, one decision covers all objects of a namespace.
//
// It grants no additional permission: a user that is permitted all objects is permitted each of them. An
// authorizer that allows all names but denies some is effective in kube-apiserver, which authorizes every
// request by name before it forwards it.
func AllNamesFirst(delegate authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(
		ctx context.Context, attributes authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		if attributes.IsResourceRequest() && attributes.GetName() != "" {
			decision, reason, err := delegate.Authorize(ctx, allNames{attributes})
			// After an error, a second request would fail, too.
			if decision == authorizer.DecisionAllow || err != nil {
				return decision, reason, err
			}
		}
		return delegate.Authorize(ctx, attributes)
	})
}

// allNames are the attributes of a request for all objects.
type allNames struct {
	authorizer.Attributes
}

// GetName returns an empty name, which means all names.
func (allNames) GetName() string { return "" }
