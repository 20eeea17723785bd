// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

// NetworkConfigs is the definition of NetworkConfigs, with the ranges and the gateway of one cluster of a peering. A
// NetworkConfig is local if this cluster wrote it: in a tenant namespace, the one named NetworkConfigOfProvider, and in
// a peer namespace, the one with another name.
var NetworkConfigs = Kind[*federation.NetworkConfig, federation.NetworkConfigSpec, federation.NetworkConfigStatus]{
	Resource: "networkconfigs", Singular: "networkconfig", ShortNames: []string{"netcfg"},
	New:        func() runtime.Object { return &federation.NetworkConfig{} },
	NewList:    func() runtime.Object { return &federation.NetworkConfigList{} },
	Namespaced: true,
	Parts: func(obj *federation.NetworkConfig) (*federation.NetworkConfigSpec, *federation.NetworkConfigStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateNetworkConfig,
	ValidateUpdate:       validation.ValidateNetworkConfigUpdate,
	ValidateStatusUpdate: validation.ValidateNetworkConfigStatusUpdate,
	Fields: func(obj *federation.NetworkConfig) fields.Set {
		return fields.Set{"spec.clusterID": obj.Spec.ClusterID}
	},
	Columns: store.Table[*federation.NetworkConfig]{
		{Name: "Local", Type: "boolean", Description: "whether this cluster wrote the object",
			Cell: func(c *federation.NetworkConfig) any {
				return naming.IsTenantNamespace(c.Namespace) == (c.Name == v1alpha1.NetworkConfigOfProvider)
			}},
		{Name: "CIDRs", Description: "ranges of the pods, and external CIDRs",
			Cell: func(c *federation.NetworkConfig) any {
				return strings.Join(append(append([]string(nil), c.Spec.PodCIDRs...), c.Spec.ExternalCIDRs...), ",")
			}},
		{Name: "Mapped", Description: "remapped CIDRs", Cell: func(c *federation.NetworkConfig) any {
			var mapped []string
			for _, mapping := range c.Status.CIDRs {
				mapped = append(mapped, mapping.Mapped)
			}
			return store.OrNone(strings.Join(mapped, ","))
		}},
		{Name: "Accepted", Description: "whether the peer accepted the ranges", Cell: func(c *federation.NetworkConfig) any {
			if accepted := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAccepted); accepted != nil {
				return string(accepted.Status)
			}
			return string(metav1.ConditionUnknown)
		}},
		{Name: "Endpoints", Wide: true, Description: "endpoints of the gateway",
			Cell: func(c *federation.NetworkConfig) any {
				return store.OrNone(strings.Join(c.Spec.Endpoints, ","))
			}},
		{Name: "Cluster ID", Wide: true, Description: "ID of the cluster that the ranges belong to",
			Cell: func(c *federation.NetworkConfig) any {
				return c.Spec.ClusterID
			}},
	},
}
