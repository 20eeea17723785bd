// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

// table calls a request local where its author is: in a consumer's namespace
// about its provider.
var table = store.Negotiated(
	func(r *federation.ResourceRequest) bool { return naming.IsPeerNamespace(r.Namespace) },
	func(r *federation.ResourceRequest) (federation.NegotiationPhase, bool) {
		return r.Status.Phase, r.Spec.Withdrawn
	},
	func(r *federation.ResourceRequest) corev1.ResourceList { return r.Spec.Resources },
)
