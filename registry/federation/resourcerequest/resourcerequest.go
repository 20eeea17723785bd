// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcerequest serves ResourceRequests and their subresource identity.
package resourcerequest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/resource"
)

// maxRequests is the maximum number of ResourceRequests in a namespace, so that a consumer cannot fill etcd. A provider
// answers only one of them.
const maxRequests = 16

// Kind is the definition of ResourceRequests. A consumer writes its requests into peer namespaces. So this cluster
// wrote a request in a peer namespace, and a peer wrote any other one.
var Kind = resource.Kind[*federation.ResourceRequest, federation.ResourceRequestSpec, federation.ResourceRequestStatus]{
	Resource: "resourcerequests", Singular: "resourcerequest", ShortNames: []string{"rr"},
	New:        func() runtime.Object { return &federation.ResourceRequest{} },
	NewList:    func() runtime.Object { return &federation.ResourceRequestList{} },
	Namespaced: true,
	Parts: func(obj *federation.ResourceRequest) (*federation.ResourceRequestSpec, *federation.ResourceRequestStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateResourceRequest,
	ValidateUpdate:       validation.ValidateResourceRequestUpdate,
	ValidateStatusUpdate: validation.ValidateResourceRequestStatusUpdate,
	Fields: func(obj *federation.ResourceRequest) fields.Set {
		return fields.Set{"status.phase": string(obj.Status.Phase)}
	},
	Max: maxRequests,
	Columns: resource.Negotiated(
		func(r *federation.ResourceRequest) bool { return naming.IsPeerNamespace(r.Namespace) },
		func(r *federation.ResourceRequest) (federation.NegotiationPhase, bool) {
			return r.Status.Phase, r.Spec.Withdrawn
		},
		func(r *federation.ResourceRequest) corev1.ResourceList { return r.Spec.Resources },
	),
}
