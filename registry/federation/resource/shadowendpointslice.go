// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/store"
)

// maxSlices is the maximum number of ShadowEndpointSlices of one consumer, in all its remote namespaces together.
const maxSlices = 1000

type shadowEndpointSlices = Kind[*federation.ShadowEndpointSlice, federation.ShadowEndpointSliceSpec,
	federation.ShadowEndpointSliceStatus]

// ShadowEndpointSlices returns the definition of ShadowEndpointSlices. together returns the namespaces whose objects
// count together towards maxSlices.
func ShadowEndpointSlices(together store.Together) shadowEndpointSlices {
	return shadowEndpointSlices{
		Resource: "shadowendpointslices", Singular: "shadowendpointslice", ShortNames: []string{"seps"},
		New:        func() runtime.Object { return &federation.ShadowEndpointSlice{} },
		NewList:    func() runtime.Object { return &federation.ShadowEndpointSliceList{} },
		Namespaced: true,
		Parts: func(obj *federation.ShadowEndpointSlice) (*federation.ShadowEndpointSliceSpec,
			*federation.ShadowEndpointSliceStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateShadowEndpointSlice,
		ValidateUpdate:       validation.ValidateShadowEndpointSliceUpdate,
		ValidateStatusUpdate: validation.ValidateShadowEndpointSliceStatusUpdate,
		Max:                  maxSlices,
		Together:             together,
		// No controller deletes an orphaned EndpointSlice.
		Dependent: "the EndpointSlice of a shadow endpoint slice",
		Columns: store.Table[*federation.ShadowEndpointSlice]{
			{Name: "Service", Description: "Service of the endpoints",
				Cell: func(s *federation.ShadowEndpointSlice) any {
					return store.OrNone(s.Labels[discoveryv1.LabelServiceName])
				}},
			{Name: "Address Type", Description: "the family of the addresses",
				Cell: func(s *federation.ShadowEndpointSlice) any {
					return string(s.Spec.AddressType)
				}},
			{Name: "Endpoints", Type: "integer", Description: "number of endpoints",
				Cell: func(s *federation.ShadowEndpointSlice) any {
					return int64(len(s.Spec.Endpoints))
				}},
			{Name: "Status", Description: "Ready while the endpoints can be reached, otherwise the reason why they cannot",
				Cell: func(s *federation.ShadowEndpointSlice) any {
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
		},
	}
}
