// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.IdentityRequest]{
	{Name: "Cluster", Description: "how the consumer calls itself", Cell: func(r *federation.IdentityRequest) any {
		return r.Spec.ClusterName
	}},
	{Name: "Issued", Description: "whether the certificate is there", Cell: func(r *federation.IdentityRequest) any {
		if issued := meta.FindStatusCondition(r.Status.Conditions, federation.ConditionIssued); issued != nil {
			return string(issued.Status)
		}
		return string(metav1.ConditionUnknown)
	}},
	{Name: "Tenant Namespace", Description: "the namespace here that is the consumer's", Wide: true, Cell: func(r *federation.IdentityRequest) any {
		return store.OrNone(r.Status.TenantNamespace)
	}},
	{Name: "Cluster ID", Description: "the UID of the consumer's namespace kube-system", Wide: true, Cell: func(r *federation.IdentityRequest) any {
		return r.Spec.ClusterID
	}},
}
