// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.ShadowEndpointSlice]{
	{Name: "Service", Description: "the Service that the endpoints are of", Cell: func(s *federation.ShadowEndpointSlice) any {
		return store.OrNone(s.Labels[discoveryv1.LabelServiceName])
	}},
	{Name: "Address Type", Description: "the family of the addresses", Cell: func(s *federation.ShadowEndpointSlice) any {
		return string(s.Spec.AddressType)
	}},
	{Name: "Endpoints", Type: "integer", Description: "how many endpoints there are", Cell: func(s *federation.ShadowEndpointSlice) any {
		return int64(len(s.Spec.Endpoints))
	}},
	{Name: "Status", Description: "Ready while the endpoints can be reached, or what is in the way", Cell: func(s *federation.ShadowEndpointSlice) any {
		ready := meta.FindStatusCondition(s.Status.Conditions, federation.ConditionReady)
		switch {
		case ready == nil:
			return "Pending"
		case ready.Status == metav1.ConditionTrue:
			return "Ready"
		default:
			return ready.Reason
		}
	}},
}
