// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Peering is the body of requests to the verb peer of a ForeignCluster, and of their responses.
type Peering struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   PeeringSpec
	Status PeeringStatus
}

// PeeringSpec is the invitation and the desired state of the peering.
type PeeringSpec struct {
	Outgoing                 PeeringIntent
	ClusterID                string
	Server                   string
	CABundle                 []byte
	ProxyURL                 string
	Token                    string
	Resources                corev1.ResourceList
	DisconnectTimeoutSeconds *int32
	Incoming                 PeeringIntent
	Mode                     PeeringMode
	Gateway                  *PeeringGateway
}

// PeeringStatus is the observed state of both peerings with the peer, and the plan of a dry run.
type PeeringStatus struct {
	OutgoingPeering PeeringPhase
	IncomingPeering PeeringPhase
	Authentication  PeeringPhase
	Conditions      []metav1.Condition
	Gateway         *PeeringGateway
	Command         string
	Plan            *PeeringPlan
}
