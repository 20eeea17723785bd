// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/store"
)

// maxCells is the maximum number of ranges of one source in a cell of the table.
const maxCells = 4

// noSpec is the spec of a kind without spec.
type noSpec struct{}

// ClusterInfos is the definition of ClusterInfos. The only object describes the local cluster.
var ClusterInfos = Kind[*federation.ClusterInfo, noSpec, federation.ClusterInfoStatus]{
	Resource: "clusterinfos", Singular: "clusterinfo", ShortNames: []string{"ci"},
	New:     func() runtime.Object { return &federation.ClusterInfo{} },
	NewList: func() runtime.Object { return &federation.ClusterInfoList{} },
	Parts: func(obj *federation.ClusterInfo) (*noSpec, *federation.ClusterInfoStatus) {
		return &noSpec{}, &obj.Status
	},
	Validate:             validation.ValidateClusterInfo,
	ValidateUpdate:       validation.ValidateClusterInfoUpdate,
	ValidateStatusUpdate: validation.ValidateClusterInfoStatusUpdate,
	Columns: store.Table[*federation.ClusterInfo]{
		{Name: "Cluster", Description: "the name of the cluster", Cell: func(c *federation.ClusterInfo) any {
			return store.OrNone(c.Status.ClusterName)
		}},
		{Name: "Pods", Description: "the ranges of pods, with their source", Cell: ranges(federation.RangeOfPods)},
		{Name: "Services", Description: "the ranges of Services, with their source",
			Cell: ranges(federation.RangeOfServices)},
		{Name: "External", Description: "the ranges that expose non-pod endpoints, with their source",
			Cell: ranges(federation.RangeExternal)},
		{Name: "Consistent", Description: "whether detected ranges, configured values and tunnels agree",
			Cell: func(c *federation.ClusterInfo) any {
				condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionRangesConsistent)
				if condition == nil {
					return store.None
				}
				return string(condition.Status)
			}},
		{Name: "Nodes", Wide: true, Description: "the ranges of nodes, with their source",
			Cell: ranges(federation.RangeOfNodes)},
		{Name: "Reserved", Wide: true, Description: "other ranges that no peer may use, with their source",
			Cell: ranges(federation.RangeReserved)},
		{Name: "Version", Wide: true, Description: "version of Liqo Federation", Cell: func(c *federation.ClusterInfo) any {
			return store.OrNone(c.Status.Version)
		}},
	},
}

// ranges returns a function for the cell with the ranges of one use, grouped by their source: of each source at most
// maxCells, and the number of the others.
func ranges(use federation.ClusterRangeUse) func(*federation.ClusterInfo) any {
	return func(c *federation.ClusterInfo) any {
		var sources []federation.ClusterRangeSource
		cidrs := map[federation.ClusterRangeSource][]string{}
		for _, r := range c.Status.Ranges {
			if r.Use != use {
				continue
			}
			if !slices.Contains(sources, r.Source) {
				sources = append(sources, r.Source)
			}
			cidrs[r.Source] = append(cidrs[r.Source], r.CIDR)
		}
		var cells []string
		for _, source := range sources {
			shown := cidrs[source]
			if more := len(shown) - maxCells; more > 0 {
				shown = append(shown[:maxCells:maxCells], fmt.Sprintf("%d more", more))
			}
			cells = append(cells, fmt.Sprintf("%s (%s)", strings.Join(shown, ","), source))
		}
		return store.OrNone(strings.Join(cells, ","))
	}
}
