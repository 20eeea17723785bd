// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignCluster is another cluster: its identity, how to reach it, what
// peering is wanted, and how it stands. Its name is how this cluster calls
// the other one.
type ForeignCluster struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ForeignClusterSpec
	Status ForeignClusterStatus
}

// PeeringIntent says whether a direction of a peering is wanted.
type PeeringIntent string

const (
	// PeeringEnabled asks for the peering.
	PeeringEnabled PeeringIntent = "Enabled"
	// PeeringDisabled refuses or ends the peering.
	PeeringDisabled PeeringIntent = "Disabled"
)

// ForeignClusterSpec is what the administrators of this cluster want of
// another one.
type ForeignClusterSpec struct {
	ClusterID                string
	Outgoing                 PeeringIntent
	Incoming                 PeeringIntent
	Server                   string
	CABundle                 []byte
	ProxyURL                 string
	InvitationSecretName     string
	Resources                corev1.ResourceList
	OutgoingPolicy                PeeringAnswer
	IncomingPolicy                  IncomingPolicy
	DisconnectTimeoutSeconds *int32
	Networking               NetworkingMode
	Cordoned                 bool
	Mode                     PeeringMode
	Gateway                  *PeeringGateway
}

// PeeringMode says which way the control planes of two clusters talk.
type PeeringMode string

// The modes of a peering, see v1alpha1.
const (
	PeeringOutOfBand PeeringMode = "OutOfBand"
	PeeringInBand    PeeringMode = "InBand"
)

// PeeringGateway is what a cluster has to know of the gateway of another one to
// make a tunnel to it.
type PeeringGateway struct {
	PublicKey string
	Endpoints []string
}

// NetworkingMode says how the pods of two clusters reach each other.
type NetworkingMode string

const (
	// NetworkingNone means that they do not.
	NetworkingNone NetworkingMode = "None"
	// NetworkingFlat means that they are in one network already.
	NetworkingFlat NetworkingMode = "Flat"
	// NetworkingTunnel means that they do by a tunnel between two gateways.
	NetworkingTunnel NetworkingMode = "Tunnel"
)

// PeeringDecision is an administrator's answer to the other cluster.
type PeeringDecision string

const (
	// PeeringAccept says yes, whatever the policy of the installation says.
	PeeringAccept PeeringDecision = "Accept"
	// PeeringRefuse says no.
	PeeringRefuse PeeringDecision = "Refuse"
	// PeeringManual says that it is not decided yet.
	PeeringManual PeeringDecision = "Manual"
)

// PeeringAnswer is what an administrator answers the other cluster in one
// direction, and why.
type PeeringAnswer struct {
	Decision PeeringDecision
	Reason   string
}

// OfferShape says how the nodes of a provider are offered.
type OfferShape string

const (
	// OfferAggregate offers the shared nodes as a whole.
	OfferAggregate OfferShape = "Aggregate"
	// OfferPerNode offers each shared node by itself.
	OfferPerNode OfferShape = "PerNode"
)

// IncomingPolicy is what an administrator answers a consumer, and how long
// what it runs here is kept without it.
type IncomingPolicy struct {
	PeeringAnswer
	SharePercent        *int32
	Limits              corev1.ResourceList
	NodeSelector        map[string]string
	Shape               OfferShape
	Labels              map[string]string
	StorageClasses      []string
	IngressClasses      []string
	LoadBalancerClasses []string
	OrphanTTL           *metav1.Duration
	ExternalVolumes     ExternalVolumes
}

// PeeringPhase is how far one aspect of a peering has come.
type PeeringPhase string

const (
	// PeeringNone means that nothing is wanted and nothing is there.
	PeeringNone PeeringPhase = "None"
	// PeeringPending means that the sides are still talking.
	PeeringPending PeeringPhase = "Pending"
	// PeeringEstablished means that it works.
	PeeringEstablished PeeringPhase = "Established"
	// PeeringDisconnecting means that it is being undone.
	PeeringDisconnecting PeeringPhase = "Disconnecting"
	// PeeringDenied means that the other side, or our policy, said no.
	PeeringDenied PeeringPhase = "Denied"
	// PeeringError means that it cannot go on as it is; the condition of the
	// same name tells what to do.
	PeeringError PeeringPhase = "Error"
)

// Condition types of a ForeignCluster. Each goes with the phase of the same
// aspect and says why it is as it is.
const (
	// ConditionOutgoingPeering is True while this cluster can borrow.
	ConditionOutgoingPeering = "OutgoingPeering"
	// ConditionIncomingPeering is True while this cluster lends.
	ConditionIncomingPeering = "IncomingPeering"
	// ConditionAuthenticated is True while the two clusters accept each
	// other's identity.
	ConditionAuthenticated = "Authenticated"
	// ConditionReady is True when every direction that is wanted is
	// established.
	ConditionReady = "Ready"
)

// ForeignClusterStatus is how a peering stands.
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
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignClusterList is a list of ForeignClusters.
type ForeignClusterList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ForeignCluster
}
