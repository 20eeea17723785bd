// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.ForeignCluster]{
	{Name: "Outgoing Peering", Description: "how the borrowing from the other cluster stands", Cell: func(c *federation.ForeignCluster) any {
		return phase(c.Status.OutgoingPeering, c.Spec.Outgoing)
	}},
	{Name: "Incoming Peering", Description: "how the lending to the other cluster stands", Cell: func(c *federation.ForeignCluster) any {
		return phase(c.Status.IncomingPeering, c.Spec.Incoming)
	}},
	{Name: "Networking", Description: "how the tunnel between the clusters stands", Cell: func(c *federation.ForeignCluster) any {
		return phase(c.Status.Networking, federation.PeeringDisabled)
	}},
	{Name: "Authentication", Description: "how the identities of the clusters stand", Cell: func(c *federation.ForeignCluster) any {
		return phase(c.Status.Authentication, c.Spec.Outgoing)
	}},
	{Name: "Cluster ID", Description: "the UID of the other cluster's namespace kube-system", Wide: true, Cell: func(c *federation.ForeignCluster) any {
		return store.OrNone(c.Spec.ClusterID)
	}},
	{Name: "Latency", Description: "the round trip through the tunnel, while it is connected", Wide: true, Cell: func(c *federation.ForeignCluster) any {
		return store.Latency(c.Status.LatencyMicroseconds)
	}},
	{Name: "Virtual Nodes", Type: "integer", Description: "how many nodes were made of what the other cluster lends", Wide: true, Cell: func(c *federation.ForeignCluster) any {
		return int64(c.Status.VirtualNodes)
	}},
	{Name: "Server", Description: "the URL of the other cluster's Kubernetes API", Wide: true, Cell: func(c *federation.ForeignCluster) any {
		return store.OrNone(c.Spec.Server)
	}},
}

// phase is what was observed of one aspect; until something was, what is
// wanted is pending.
func phase(observed federation.PeeringPhase, wanted federation.PeeringIntent) string {
	switch {
	case observed != "":
		return string(observed)
	case wanted == federation.PeeringEnabled:
		return string(federation.PeeringPending)
	default:
		return string(federation.PeeringNone)
	}
}
