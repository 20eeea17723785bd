// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints peering tokens.
package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/peeringtoken"
	"liqo.io/federation/registry/federation/store"
)

// maxTokens bounds the invitations of a cluster: those that have ended are
// deleted, and nobody peers with a thousand clusters at once.
const maxTokens = 1000

// New makes the storages of peering tokens and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := peeringtoken.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "peeringtokens",
		Singular:       "peeringtoken",
		ShortNames:     []string{"pt"},
		New:            func() runtime.Object { return &federation.PeeringToken{} },
		NewList:        func() runtime.Object { return &federation.PeeringTokenList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Max:            maxTokens,
	}, getter)
}
