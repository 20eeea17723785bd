// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignCluster represents a peer, a cluster that is a provider or a consumer of the local
// cluster, or both.
type ForeignCluster struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ForeignClusterSpec
	Status ForeignClusterStatus
}

// PeeringIntent is the desired state of the outgoing or the incoming peering.
type PeeringIntent string

// Values of PeeringIntent, documented in v1alpha1.
const (
	PeeringEnabled  PeeringIntent = "Enabled"
	PeeringDisabled PeeringIntent = "Disabled"
)

// ForeignClusterSpec is the desired state of the outgoing and the incoming peering with one peer.
type ForeignClusterSpec struct {
	ClusterID                string
	Outgoing                 PeeringIntent
	Incoming                 PeeringIntent
	Server                   string
	CABundle                 []byte
	ProxyURL                 string
	InvitationSecretName     string
	Resources                corev1.ResourceList
	OutgoingPolicy           PeeringAnswer
	IncomingPolicy           IncomingPolicy
	DisconnectTimeoutSeconds *int32
	Networking               NetworkingMode
	Cordoned                 bool
	Mode                     PeeringMode
	Gateway                  *PeeringGateway
	Trust                    PeeringTrust
	Reach                    ReachMode
	KeepCIDRs                []string
	APIAccess                APIAccess
}

// PeeringTrust selects what a peer, and pods of its users, may do in the local cluster.
type PeeringTrust string

// Values of PeeringTrust, documented in v1alpha1.
const (
	TrustTenant    PeeringTrust = "Tenant"
	TrustSameOwner PeeringTrust = "SameOwner"
)

// ReachMode selects which local pods a peer reaches through the tunnel.
type ReachMode string

// Values of ReachMode, documented in v1alpha1.
const (
	ReachOffloaded ReachMode = "Offloaded"
	ReachAll       ReachMode = "All"
)

// PeeringMode is the path of control plane traffic between two clusters.
type PeeringMode string

// Values of PeeringMode, documented in v1alpha1.
const (
	PeeringOutOfBand PeeringMode = "OutOfBand"
	PeeringInBand    PeeringMode = "InBand"
)

// PeeringGateway is the public key and the endpoints of a gateway, with which another cluster
// establishes a tunnel to it.
type PeeringGateway struct {
	PublicKey string
	Endpoints []string
}

// NetworkingMode is the kind of pod connectivity between two clusters.
type NetworkingMode string

// Values of NetworkingMode, documented in v1alpha1.
const (
	NetworkingNone   NetworkingMode = "None"
	NetworkingFlat   NetworkingMode = "Flat"
	NetworkingTunnel NetworkingMode = "Tunnel"
)

// PeeringDecision is the decision of an administrator about the resource offers or the resource
// requests of a peer.
type PeeringDecision string

// Values of PeeringDecision, documented in v1alpha1.
const (
	PeeringAccept PeeringDecision = "Accept"
	PeeringRefuse PeeringDecision = "Refuse"
	PeeringManual PeeringDecision = "Manual"
)

// PeeringAnswer is the decision of an administrator about the resource offers or the resource
// requests of a peer, and its reason.
type PeeringAnswer struct {
	Decision PeeringDecision
	Reason   string
}

// OfferShape selects how the nodes of a provider are offered.
type OfferShape string

// Values of OfferShape, documented in v1alpha1.
const (
	OfferAggregate OfferShape = "Aggregate"
	OfferPerNode   OfferShape = "PerNode"
)

// PeeringPhase is the state of one aspect of a peering, for example its authentication or
// networking.
type PeeringPhase string

// Values of PeeringPhase, documented in v1alpha1.
const (
	PeeringNone          PeeringPhase = "None"
	PeeringPending       PeeringPhase = "Pending"
	PeeringEstablished   PeeringPhase = "Established"
	PeeringDisconnecting PeeringPhase = "Disconnecting"
	PeeringDenied        PeeringPhase = "Denied"
	PeeringError         PeeringPhase = "Error"
)

// Condition types of a ForeignCluster, documented in v1alpha1.
const (
	ConditionOutgoingPeering = "OutgoingPeering"
	ConditionIncomingPeering = "IncomingPeering"
	ConditionAuthenticated   = "Authenticated"
	ConditionReady           = "Ready"
)

// ForeignClusterStatus is the observed state of the outgoing and the incoming peering with one
// peer.
type ForeignClusterStatus struct {
	ObservedGeneration     int64
	OutgoingPeering        PeeringPhase
	IncomingPeering        PeeringPhase
	Networking             PeeringPhase
	LatencyMicroseconds    int64
	Authentication         PeeringPhase
	PeerNamespace          string
	TenantNamespace        string
	RemoteTenantNamespace  string
	IdentityExpirationTime *metav1.Time
	VirtualNodes           int32
	Gateway                *PeeringGateway
	Conditions             []metav1.Condition
	Policies               []EffectivePolicy
}

// EffectivePolicy is a policy of the local cluster that is in force for a peer.
type EffectivePolicy struct {
	Name   string
	Binds  PeerRole
	Value  string
	Source PolicySource
}

// PeerRole is the role of a peer in a peering with the local cluster.
type PeerRole string

// Values of PeerRole, documented in v1alpha1.
const (
	PeerRoleConsumer PeerRole = "Consumer"
	PeerRoleProvider PeerRole = "Provider"
	PeerRoleBoth     PeerRole = "Both"
)

// PolicySource is the origin of the value of a policy.
type PolicySource string

// Values of PolicySource, documented in v1alpha1.
const (
	PolicySourceField   PolicySource = "Field"
	PolicySourceValue   PolicySource = "Value"
	PolicySourceTrust   PolicySource = "Trust"
	PolicySourceDefault PolicySource = "Default"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignClusterList is a list of ForeignClusters.
type ForeignClusterList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ForeignCluster
}
