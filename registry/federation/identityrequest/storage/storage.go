// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints identity requests.
package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/identityrequest"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of identity requests and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := identityrequest.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "identityrequests",
		Singular:       "identityrequest",
		New:            func() runtime.Object { return &federation.IdentityRequest{} },
		NewList:        func() runtime.Object { return &federation.IdentityRequestList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
	}, getter)
}
