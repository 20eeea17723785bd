// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:method=CreatePeer,verb=create,subresource=peer,input=Peering,result=Peering
// +genclient:method=GetPeer,verb=get,subresource=peer,result=Peering
// +genclient:method=UpdatePeer,verb=update,subresource=peer,input=Peering,result=Peering
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignCluster is another cluster: its identity, how to reach it, what
// peering is wanted, and how it stands. Its name is how this cluster calls
// the other one.
type ForeignCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name has at most 40
	// characters and is a DNS label, because namespaces and nodes are named
	// after it.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what the administrators of this cluster want.
	Spec ForeignClusterSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is how the peering stands; only the system writes it.
	// +optional
	Status ForeignClusterStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringIntent says whether a direction of a peering is wanted.
// +enum
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
	// clusterID identifies the other cluster: the UID of its kube-system
	// namespace. It cannot change once it is set.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,1,opt,name=clusterID"`
	// outgoing says whether this cluster borrows from the other one: Enabled
	// or Disabled (the default). Setting it back to Disabled unpeers.
	// +optional
	Outgoing PeeringIntent `json:"outgoing,omitempty" protobuf:"bytes,2,opt,name=outgoing,casttype=PeeringIntent"`
	// incoming says whether this cluster lends to the other one: Enabled or
	// Disabled (the default). An accepted invitation enables it; setting it
	// back to Disabled withdraws what was lent and revokes the identity.
	// +optional
	Incoming PeeringIntent `json:"incoming,omitempty" protobuf:"bytes,3,opt,name=incoming,casttype=PeeringIntent"`
	// server is the https URL of the other cluster's Kubernetes API. Only a
	// provider needs one: consumers are never dialled.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,4,opt,name=server"`
	// caBundle is the PEM encoded bundle of certificate authorities that the
	// server's certificate is verified with. Empty means the system's.
	// +optional
	CABundle []byte `json:"caBundle,omitempty" protobuf:"bytes,5,opt,name=caBundle"`
	// proxyURL is the http or https URL of a proxy between the clusters, as
	// http://proxy.example.org:3128; it is asked by CONNECT for the server.
	// Empty means that the server is dialled directly.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty" protobuf:"bytes,6,opt,name=proxyURL"`
	// invitationSecretName names a Secret of type federation.liqo.io/invitation
	// in the installation namespace, whose key "token" holds the provider's
	// invitation. It is needed until the provider has accepted our identity.
	// +optional
	InvitationSecretName string `json:"invitationSecretName,omitempty" protobuf:"bytes,7,opt,name=invitationSecretName"`
	// resources is what this cluster asks for; empty asks for whatever the
	// provider is willing to lend.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,8,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// borrowing is what an administrator answers the other cluster's offers.
	// +optional
	OutgoingPolicy PeeringAnswer `json:"outgoingPolicy,omitzero" protobuf:"bytes,9,opt,name=outgoingPolicy"`
	// lending is what an administrator answers the other cluster's requests,
	// and how long this cluster keeps what the other one runs here.
	// +optional
	IncomingPolicy IncomingPolicy `json:"incomingPolicy,omitzero" protobuf:"bytes,10,opt,name=incomingPolicy"`
	// disconnectTimeoutSeconds bounds how long unpeering waits for the other
	// side; after that this side gets clean by itself. Defaults to 300; with 0 data stays at the provider.
	// +optional
	DisconnectTimeoutSeconds *int32 `json:"disconnectTimeoutSeconds,omitempty" protobuf:"varint,11,opt,name=disconnectTimeoutSeconds"`
	// networking says how the pods of the two clusters reach each other: None,
	// where they do not, Flat, where both are in one network already, without any
	// address in common, or Tunnel, where the gateways of both make a tunnel and
	// may have the same addresses. Empty leaves it to the setting of this
	// installation.
	// +optional
	Networking NetworkingMode `json:"networking,omitempty" protobuf:"bytes,12,opt,name=networking,casttype=NetworkingMode"`
	// cordoned keeps new pods from going to the other cluster, and from coming from
	// there, as kubectl cordon does for a node: the virtual nodes of the other
	// cluster are cordoned, and what it is offered stays with nothing in it. What
	// runs goes on; kubectl drain evicts it from the virtual nodes.
	// +optional
	Cordoned bool `json:"cordoned,omitempty" protobuf:"varint,13,opt,name=cordoned"`
	// mode says which way the control planes of the two clusters talk: OutOfBand
	// (the default), where the provider's API server is reached from outside, or
	// InBand, where all of it goes through the tunnel between the gateways, and
	// nothing but that is reached.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,14,opt,name=mode,casttype=PeeringMode"`
	// gateway is the other cluster's, which a tunnel is made to before anything
	// else is agreed upon. InBand needs it, and nothing else looks at it.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,15,opt,name=gateway"`
}

// PeeringMode says which way the control planes of two clusters talk.
// +enum
type PeeringMode string

const (
	// PeeringOutOfBand means that the provider's API server is reached from
	// outside.
	PeeringOutOfBand PeeringMode = "OutOfBand"
	// PeeringInBand means that everything goes through the tunnel between the
	// gateways.
	PeeringInBand PeeringMode = "InBand"
)

// PeeringGateway is what a cluster has to know of the gateway of another one to
// make a tunnel to it.
type PeeringGateway struct {
	// publicKey is its WireGuard key, in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,1,opt,name=publicKey"`
	// endpoints are where it is called, host:port over UDP, the best first. At
	// most 8; without any it calls the other one.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,2,rep,name=endpoints"`
}

// NetworkingMode says how the pods of two clusters reach each other.
// +enum
type NetworkingMode string

const (
	// NetworkingNone means that they do not.
	NetworkingNone NetworkingMode = "None"
	// NetworkingFlat means that they are in one network already, and have no
	// address in common.
	NetworkingFlat NetworkingMode = "Flat"
	// NetworkingTunnel means that they do by a tunnel between two gateways, which
	// the clusters agree upon.
	NetworkingTunnel NetworkingMode = "Tunnel"
)

// PeeringDecision is an administrator's answer to the other cluster.
// +enum
type PeeringDecision string

const (
	// PeeringAccept says yes, whatever the policy of the installation says.
	PeeringAccept PeeringDecision = "Accept"
	// PeeringRefuse says no.
	PeeringRefuse PeeringDecision = "Refuse"
	// PeeringManual says that it is not decided yet, whatever the policy of the
	// installation says.
	PeeringManual PeeringDecision = "Manual"
)

// PeeringAnswer is what an administrator answers the other cluster in one
// direction, and why.
type PeeringAnswer struct {
	// decision is Accept, Refuse or Manual. Empty leaves the answer to the policy
	// of this installation: yes, or, where the policy wants an administrator to
	// decide, not yet. Refuse also takes back what was accepted before. Manual is
	// not yet: what was accepted before stays as it is.
	// +optional
	Decision PeeringDecision `json:"decision,omitempty" protobuf:"bytes,1,opt,name=decision,casttype=PeeringDecision"`
	// reason tells the other cluster's administrators why, in at most 256
	// characters.
	// +optional
	Reason string `json:"reason,omitempty" protobuf:"bytes,2,opt,name=reason"`
}

// OfferShape says how the nodes of a provider are offered.
// +enum
type OfferShape string

const (
	// OfferAggregate offers the shared nodes as a whole: the consumer has one
	// virtual node, which may be larger than any real one.
	OfferAggregate OfferShape = "Aggregate"
	// OfferPerNode offers each shared node by itself: the consumer has a virtual
	// node for each.
	OfferPerNode OfferShape = "PerNode"
)

// IncomingPolicy is what an administrator answers a consumer, how much it is
// offered, and how long what it runs here is kept without it.
type IncomingPolicy struct {
	PeeringAnswer `json:",inline" protobuf:"bytes,1,opt,name=peeringAnswer"`
	// sharePercent is how much of what the shared nodes can run the other
	// cluster is offered, 1 to 100. Without it the setting of this installation
	// counts.
	// +optional
	SharePercent *int32 `json:"sharePercent,omitempty" protobuf:"varint,2,opt,name=sharePercent"`
	// limits are the most that the other cluster is offered of a resource,
	// extended ones too; 0 offers none of it. For a resource that is not named
	// the setting of this installation counts. requests.storage,
	// persistentvolumeclaims and
	// <class>.storageclass.storage.k8s.io/requests.storage bound the claims of the
	// other cluster; without requests.storage it is offered no storage.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty" protobuf:"bytes,3,rep,name=limits,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// nodeSelector are the labels that nodes must have to be shared with the
	// other cluster: what it is offered is a part of these nodes, and its pods
	// run on them alone. Without it the setting of this installation counts.
	// Pods that run already stay where they are.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty" protobuf:"bytes,4,rep,name=nodeSelector"`
	// shape is Aggregate, where the shared nodes are offered as a whole, or
	// PerNode, where they are offered one by one. Without it the setting of this
	// installation counts.
	// +optional
	Shape OfferShape `json:"shape,omitempty" protobuf:"bytes,5,opt,name=shape,casttype=OfferShape"`
	// labels are told to the other cluster, for its virtual nodes, beside those in
	// the setting of this installation, and instead of those with the same key.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,6,rep,name=labels"`
	// storageClasses are those that objects of the other cluster may name here, the
	// default first. Without any the setting of this installation counts.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,7,rep,name=storageClasses"`
	// ingressClasses are those that Ingresses of the other cluster may name here,
	// the default first: one with another class is refused. Without any the
	// setting of this installation counts.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,8,rep,name=ingressClasses"`
	// loadBalancerClasses are the same for Services of type LoadBalancer.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,9,rep,name=loadBalancerClasses"`
	// orphanTTL is how long the other cluster may give no sign of life before
	// this one ends the lending by itself, and removes what runs here for it:
	// at least 1m, as 72h, and 0s is for ever. Without it the setting of this
	// installation counts, which is for ever unless somebody changed it. A
	// cluster that never gave a sign of life, as older versions do not, is
	// kept.
	// +optional
	OrphanTTL *metav1.Duration `json:"orphanTTL,omitempty" protobuf:"bytes,10,opt,name=orphanTTL"`
	// externalVolumes are the volume types and CSI drivers that pods of the other
	// cluster may mount in this one without a claim. Without any the setting of this
	// installation counts, which is none by default.
	// +optional
	ExternalVolumes ExternalVolumes `json:"externalVolumes,omitzero" protobuf:"bytes,11,opt,name=externalVolumes"`
}

// PeeringPhase is how far one aspect of a peering has come.
// +enum
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
	// ConditionConsumerAlive is True while the cluster that is lent to gives
	// signs of life, and False since it does not. It is there as long as this
	// cluster lends.
	ConditionConsumerAlive = "ConsumerAlive"
	// ConditionNetworking is True while the tunnel to the other cluster is
	// connected. It is there as long as there is to be one.
	ConditionNetworking = "Networking"
)

// ForeignClusterStatus is how a peering stands.
type ForeignClusterStatus struct {
	// observedGeneration is the generation of the spec that this status
	// answers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// outgoingPeering is how the borrowing stands: None, Pending, Established,
	// Disconnecting, Denied or Error.
	// +optional
	OutgoingPeering PeeringPhase `json:"outgoingPeering,omitempty" protobuf:"bytes,2,opt,name=outgoingPeering,casttype=PeeringPhase"`
	// incomingPeering is how the lending stands.
	// +optional
	IncomingPeering PeeringPhase `json:"incomingPeering,omitempty" protobuf:"bytes,3,opt,name=incomingPeering,casttype=PeeringPhase"`
	// networking is whether the pods of the two clusters reach each other.
	// +optional
	Networking PeeringPhase `json:"networking,omitempty" protobuf:"bytes,4,opt,name=networking,casttype=PeeringPhase"`
	// latencyMicroseconds is how long a word to the other cluster's gateway and its
	// answer take through the tunnel, while it is connected.
	// +optional
	LatencyMicroseconds int64 `json:"latencyMicroseconds,omitempty" protobuf:"varint,5,opt,name=latencyMicroseconds"`
	// authentication is how the identities of the clusters stand.
	// +optional
	Authentication PeeringPhase `json:"authentication,omitempty" protobuf:"bytes,6,opt,name=authentication,casttype=PeeringPhase"`
	// peerNamespace is where this cluster keeps its intent, mirrors and
	// Secrets about the other one while it borrows from it.
	// +optional
	PeerNamespace string `json:"peerNamespace,omitempty" protobuf:"bytes,7,opt,name=peerNamespace"`
	// tenantNamespace is what the other cluster may see here while this one
	// lends to it.
	// +optional
	TenantNamespace string `json:"tenantNamespace,omitempty" protobuf:"bytes,8,opt,name=tenantNamespace"`
	// remoteTenantNamespace is what this cluster may see on the other one
	// while it borrows from it.
	// +optional
	RemoteTenantNamespace string `json:"remoteTenantNamespace,omitempty" protobuf:"bytes,9,opt,name=remoteTenantNamespace"`
	// identityExpirationTime is when this cluster's certificate at the
	// provider ends.
	// +optional
	IdentityExpirationTime *metav1.Time `json:"identityExpirationTime,omitempty" protobuf:"bytes,10,opt,name=identityExpirationTime"`
	// virtualNodes counts the virtual nodes made of what the other cluster
	// lends.
	// +optional
	VirtualNodes int32 `json:"virtualNodes,omitempty" protobuf:"varint,11,opt,name=virtualNodes"`
	// gateway is this cluster's own, as the other cluster has to know it, where
	// mode is InBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,12,opt,name=gateway"`
	// conditions say why each aspect is as it is: OutgoingPeering,
	// IncomingPeering, Authenticated and Ready; ConsumerAlive, since when a
	// cluster that is lent to is silent; and Networking, how far the tunnel has
	// come.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,13,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignClusterList is a list of ForeignClusters.
type ForeignClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the foreign clusters.
	Items []ForeignCluster `json:"items" protobuf:"bytes,2,rep,name=items"`
}
