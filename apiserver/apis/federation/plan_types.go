// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import "k8s.io/apimachinery/pkg/api/resource"

// PlanAction is what a request would do.
type PlanAction string

const (
	// PlanCreate means that something would be made that is not there.
	PlanCreate PlanAction = "Create"
	// PlanChange means that something that is there would change.
	PlanChange PlanAction = "Change"
	// PlanDelete means that something that is there would go.
	PlanDelete PlanAction = "Delete"
	// PlanNone means that everything would stay as it is.
	PlanNone PlanAction = "None"
)

// PeeringPlan is what a request to the verb peer would lead to, as far as this
// cluster knows. It is in answers to dryRun=All only, and stored nowhere.
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

// OffloadPlan is what a request to the verb offload would lead to, as far as
// this cluster knows. It is in answers to dryRun=All only, and stored nowhere.
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

// PlannedCluster is what would happen at one foreign cluster.
type PlannedCluster struct {
	Name          string
	Selected      bool
	Message       string
	NamespaceName string
	Action        PlanAction
}

// MisplacedPod is a pod that would run where the request no longer lets it.
type MisplacedPod struct {
	Name     string
	NodeName string
	Message  string
	Action   PlanAction
}

// MovePlan is what a request to the verb move would lead to, as far as this
// cluster knows. It is in answers to dryRun=All only, and stored nowhere.
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

// PlannedVolume is a volume whose data is stored at a cluster that a request gives
// up.
type PlannedVolume struct {
	Name        string
	Namespace   string
	ClusterName string
	Capacity    *resource.Quantity
	OnUnoffload UnoffloadPolicy
}
