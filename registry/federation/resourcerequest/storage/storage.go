// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints resource requests.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/resourcerequest"
	"liqo.io/federation/registry/federation/store"
)

// maxRequests bounds what one consumer can store in its tenant namespace; one
// request is answered.
const maxRequests = 16

// New makes the storages of resource requests and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := resourcerequest.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "resourcerequests",
		Singular:       "resourcerequest",
		ShortNames:     []string{"rr"},
		New:            func() runtime.Object { return &federation.ResourceRequest{} },
		NewList:        func() runtime.Object { return &federation.ResourceRequestList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Max:            maxRequests,
		Fields: func(obj runtime.Object) fields.Set {
			request := obj.(*federation.ResourceRequest)
			return fields.Set{
				"status.phase": string(request.Status.Phase),
			}
		},
	}, getter)
}
