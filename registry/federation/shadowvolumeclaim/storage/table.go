// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.ShadowVolumeClaim]{
	{Name: "Status", Description: "phase of the claim; Terminating while its volume is being released", Cell: func(c *federation.ShadowVolumeClaim) any {
		if c.DeletionTimestamp != nil {
			return "Terminating"
		}
		return store.OrNone(c.Status.Phase)
	}},
	{Name: "Class", Description: "storage class of the provider", Cell: func(c *federation.ShadowVolumeClaim) any { return c.Spec.StorageClassName }},
	{Name: "Capacity", Description: "actual size of the volume", Cell: func(c *federation.ShadowVolumeClaim) any {
		if c.Status.Capacity == nil {
			return store.None
		}
		return c.Status.Capacity.String()
	}},
	{Name: "Policy", Description: "what happens to the data when the object is deleted", Cell: func(c *federation.ShadowVolumeClaim) any {
		return string(c.Spec.DeletionPolicy)
	}},
	{Name: "Consumer", Description: "ForeignCluster that the claim counts against", Wide: true, Cell: func(c *federation.ShadowVolumeClaim) any {
		return store.OrNone(c.Status.ForeignCluster)
	}},
	{Name: "Volume", Description: "PersistentVolume of the provider", Wide: true, Cell: func(c *federation.ShadowVolumeClaim) any {
		return store.OrNone(c.Status.VolumeName)
	}},
}
