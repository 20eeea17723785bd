// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// AllNamesFirst returns an authorizer that, for a request with the name of an object, first requests a decision of
// delegate for all names. Only if that decision does not allow the request, it requests a decision for the name. If
// delegate caches decisions, one cached decision thus covers all objects of a namespace.
//
// It grants no additional permission: a user who may access all objects may access each object. If an
// authorizer of kube-apiserver allows all names but denies some, its denial remains effective, because
// kube-apiserver authorizes each request by name before it forwards the request.
func AllNamesFirst(delegate authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(
		ctx context.Context, attributes authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		if attributes.IsResourceRequest() && attributes.GetName() != "" {
			decision, reason, err := delegate.Authorize(ctx, allNames{attributes})
			// After an error, the request by name would fail as well.
			if decision == authorizer.DecisionAllow || err != nil {
				return decision, reason, err
			}
		}
		return delegate.Authorize(ctx, attributes)
	})
}

// allNames are the attributes of a request without the name of the object.
type allNames struct {
	authorizer.Attributes
}

// GetName returns an empty string, which authorizers interpret as all names.
func (allNames) GetName() string { return "" }
