// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import "k8s.io/apimachinery/pkg/api/resource"

// PlanAction is the effect that a request would have on an object.
type PlanAction string

// Values of PlanAction, documented in v1alpha1.
const (
	PlanCreate PlanAction = "Create"
	PlanChange PlanAction = "Change"
	PlanDelete PlanAction = "Delete"
	PlanNone   PlanAction = "None"
)

// PeeringPlan describes what a request to the verb peer would do, as far as the local cluster can
// determine it.
type PeeringPlan struct {
	Action         PlanAction
	ForeignCluster string
	ClusterID      string
	Server         string
	PeerNamespace  string
	VirtualNode    string
	Conflicts      []string
	EvictedPods    int32
	Unknown        []string
	Volumes        []PlannedVolume
}

// OffloadPlan describes what a request to the verb offload would do, as far as the local cluster
// can determine it.
type OffloadPlan struct {
	Action            PlanAction
	Clusters          []PlannedCluster
	Conflicts         []string
	EvictedPods       int32
	MisplacedPodCount int32
	MisplacedPods     []MisplacedPod
	Unknown           []string
	Volumes           []PlannedVolume
}

// PlannedCluster is the effect of a request on one provider.
type PlannedCluster struct {
	Name          string
	Selected      bool
	Message       string
	NamespaceName string
	Action        PlanAction
}

// MisplacedPod is a pod that runs on, or can only be scheduled to, a node that the request does not
// permit.
type MisplacedPod struct {
	Name     string
	NodeName string
	Message  string
	Action   PlanAction
}

// MovePlan describes what a request to the verb move would do, as far as the local cluster can
// determine it.
type MovePlan struct {
	Action          PlanAction
	Source          VolumeLocation
	Target          VolumeLocation
	Capacity        *resource.Quantity
	BytesUsed       *int64
	Files           *int64
	Path            string
	EvictedPods     []PlannedEviction
	EvictedPodCount int32
	Downtime        string
	Warnings        []string
	Unknown         []string
}

// PlannedEviction is a pod that would be evicted.
type PlannedEviction struct {
	Name               string
	NodeName           string
	DisruptionBudget   string
	DisruptionsAllowed int32
}

// PlannedVolume is a volume whose data is stored by a provider that the request would no longer
// use.
type PlannedVolume struct {
	Name        string
	Namespace   string
	ClusterName string
	Capacity    *resource.Quantity
	OnUnoffload UnoffloadPolicy
}
