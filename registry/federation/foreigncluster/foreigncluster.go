// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreigncluster serves ForeignClusters and their subresource peer.
package foreigncluster

import (
	"cmp"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/subresource/plan"
)

type kind = resource.Kind[*federation.ForeignCluster, federation.ForeignClusterSpec, federation.ForeignClusterStatus]

// Kind returns the definition of ForeignClusters. trust is the spec.trust of new objects that specify none. plans reads
// the VirtualVolumes and ShadowPods that warnings about updates and deletions list.
func Kind(trust federation.PeeringTrust, plans plan.Reader) kind {
	return kind{
		Resource: "foreignclusters", Singular: "foreigncluster", ShortNames: []string{"fc"},
		New:     func() runtime.Object { return &federation.ForeignCluster{} },
		NewList: func() runtime.Object { return &federation.ForeignClusterList{} },
		Parts: func(obj *federation.ForeignCluster) (*federation.ForeignClusterSpec, *federation.ForeignClusterStatus) {
			return &obj.Spec, &obj.Status
		},
		Prepare: func(obj *federation.ForeignCluster) {
			resource.Hold(obj)
			obj.Spec.Trust = cmp.Or(obj.Spec.Trust, trust)
		},
		PrepareUpdate: func(obj, old *federation.ForeignCluster) {
			obj.Spec.Trust = cmp.Or(obj.Spec.Trust, old.Spec.Trust)
		},
		Validate:             validation.ValidateForeignCluster,
		ValidateUpdate:       validation.ValidateForeignClusterUpdate,
		ValidateStatusUpdate: validation.ValidateForeignClusterStatusUpdate,
		Fields: func(obj *federation.ForeignCluster) fields.Set {
			return fields.Set{
				"spec.clusterID":         obj.Spec.ClusterID,
				"status.outgoingPeering": string(obj.Status.OutgoingPeering),
				"status.incomingPeering": string(obj.Status.IncomingPeering),
			}
		},
		Warnings:         warnings,
		Surroundings:     surroundings(plans),
		DeletionWarnings: deletion(plans),
		Columns: store.Table[*federation.ForeignCluster]{
			{Name: "Outgoing Peering", Description: "phase of the outgoing peering, in which the peer is the provider",
				Cell: func(c *federation.ForeignCluster) any {
					return phase(c.Status.OutgoingPeering, c.Spec.Outgoing)
				}},
			{Name: "Incoming Peering", Description: "phase of the incoming peering, in which the peer is the consumer",
				Cell: func(c *federation.ForeignCluster) any {
					return phase(c.Status.IncomingPeering, c.Spec.Incoming)
				}},
			{Name: "Networking", Description: "phase of the tunnel between the clusters",
				Cell: func(c *federation.ForeignCluster) any {
					return phase(c.Status.Networking, federation.PeeringDisabled)
				}},
			{Name: "Authentication", Description: "phase of the authentication between the clusters",
				Cell: func(c *federation.ForeignCluster) any {
					return phase(c.Status.Authentication, c.Spec.Outgoing)
				}},
			{Name: "Cluster ID", Description: "the UID of the peer's namespace kube-system", Wide: true,
				Cell: func(c *federation.ForeignCluster) any {
					return store.OrNone(c.Spec.ClusterID)
				}},
			{Name: "Latency", Description: "round-trip time of the tunnel while it is connected", Wide: true,
				Cell: func(c *federation.ForeignCluster) any {
					return store.Latency(c.Status.LatencyMicroseconds)
				}},
			{Name: "Virtual Nodes", Type: "integer", Description: "number of virtual nodes of the provider",
				Wide: true, Cell: func(c *federation.ForeignCluster) any {
					return int64(c.Status.VirtualNodes)
				}},
			{Name: "Trust", Description: "what the peer may do in this cluster", Wide: true,
				Cell: func(c *federation.ForeignCluster) any {
					return store.OrNone(string(c.Spec.Trust))
				}},
			{Name: "Server", Description: "the URL of the peer's Kubernetes API", Wide: true,
				Cell: func(c *federation.ForeignCluster) any {
					return store.OrNone(c.Spec.Server)
				}},
		},
	}
}

// phase returns the cell for one aspect of a peering, for example its authentication: observed, the phase in the
// status. If that is empty, it returns Pending if requested is Enabled, and None otherwise.
func phase(observed federation.PeeringPhase, requested federation.PeeringIntent) string {
	switch {
	case observed != "":
		return string(observed)
	case requested == federation.PeeringEnabled:
		return string(federation.PeeringPending)
	default:
		return string(federation.PeeringNone)
	}
}
