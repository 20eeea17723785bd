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

// ForeignCluster represents a peer, a cluster that is a provider or a consumer of the local
// cluster, or both. Administrators write the spec, directly or by the verb peer, and the
// controllers write the status. On a provider, the controllers create the ForeignCluster of a
// consumer that uses an invitation. The name of the object is the name of the peer within the local
// cluster.
type ForeignCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is a DNS label of at most 40 characters,
	// because namespaces and nodes are named after it.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the desired state of both peerings with the peer, written by administrators of the
	// local cluster.
	Spec ForeignClusterSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of both peerings with the peer, written by the controllers.
	// +optional
	Status ForeignClusterStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringIntent is the desired state of the outgoing or the incoming peering.
// +enum
type PeeringIntent string

const (
	// PeeringEnabled establishes the peering.
	PeeringEnabled PeeringIntent = "Enabled"
	// PeeringDisabled refuses a new peering, and ends an established one.
	PeeringDisabled PeeringIntent = "Disabled"
)

// ForeignClusterSpec is the desired state of the outgoing and the incoming peering with one peer.
type ForeignClusterSpec struct {
	// clusterID is the UID of the namespace kube-system of the peer. If it is empty, the
	// controllers set it to the ID of the cluster that responds at server. It is required with mode
	// InBand, and cannot change once it is set.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,1,opt,name=clusterID"`
	// outgoing enables the peering in which the local cluster is the consumer; it requires server.
	// The default is Disabled. A change from Enabled to Disabled ends the peering: pods on the
	// virtual nodes are evicted, and spec.volumes.onUnoffload of each NamespaceOffloading
	// determines what happens to the data that the peer stores.
	// +optional
	Outgoing PeeringIntent `json:"outgoing,omitempty" protobuf:"bytes,2,opt,name=outgoing,casttype=PeeringIntent"`
	// incoming enables the peering in which the local cluster is the provider. The default is
	// Disabled. The controllers set it to Enabled when the peer uses an invitation. A change from
	// Enabled to Disabled withdraws the offers to the peer and revokes its identity.
	// +optional
	Incoming PeeringIntent `json:"incoming,omitempty" protobuf:"bytes,3,opt,name=incoming,casttype=PeeringIntent"`
	// server is the https URL of the Kubernetes API of the peer, for example
	// https://milan.example.org:6443. It is required if outgoing is Enabled, and not used
	// otherwise: a provider opens no connection to its consumers.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,4,opt,name=server"`
	// caBundle holds the PEM encoded certificate authorities that the certificate of server is
	// verified with, at most 256 certificates and 256 KiB. If empty, the system's root
	// certificates are used.
	// +optional
	CABundle []byte `json:"caBundle,omitempty" protobuf:"bytes,5,opt,name=caBundle"`
	// proxyURL is the URL of an http or https proxy for connections to server, for example
	// http://proxy.example.org:3128, without credentials. The proxy must support the method
	// CONNECT. If empty, connections are made directly. It is forbidden with mode InBand.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty" protobuf:"bytes,6,opt,name=proxyURL"`
	// invitationSecretName is the name of a Secret of type federation.liqo.io/invitation, whose key
	// token holds the token of the invitation. The Secret is in the namespace that the value
	// invitationNamespace of the installation names, by default liqo-invitations. The field is
	// required until the provider has issued an identity. The verb peer creates the Secret and sets
	// this field.
	// +optional
	InvitationSecretName string `json:"invitationSecretName,omitempty" protobuf:"bytes,7,opt,name=invitationSecretName"`
	// resources is the amount of each resource that the local cluster requests from the peer. Empty
	// requests as much as the policy of the peer allows. It has no effect unless outgoing is
	// Enabled.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,8,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// outgoingPolicy is the decision of a local administrator about the resource offers of the
	// peer. Empty applies the value policy.autoAccept of the installation.
	// +optional
	OutgoingPolicy PeeringAnswer `json:"outgoingPolicy,omitzero" protobuf:"bytes,9,opt,name=outgoingPolicy"`
	// incomingPolicy determines whether resource requests of the peer are accepted, which resources
	// the peer is offered, what its pods and objects may use, and how long its workloads are kept
	// without a heartbeat. Empty fields use the corresponding values under policy of the installation.
	// +optional
	IncomingPolicy IncomingPolicy `json:"incomingPolicy,omitzero" protobuf:"bytes,10,opt,name=incomingPolicy"`
	// disconnectTimeoutSeconds is the time, in seconds, to wait for the peer when a peering ends, 0 to
	// 86400. After this time, the local cluster deletes its own objects of the peering without waiting
	// for the peer. The default is 300. With 0 the local cluster does not wait, and the data that the
	// peer stores is not deleted.
	// +optional
	DisconnectTimeoutSeconds *int32 `json:"disconnectTimeoutSeconds,omitempty" protobuf:"varint,11,opt,name=disconnectTimeoutSeconds"`
	// networking selects pod connectivity between the clusters. Both clusters must select the same
	// value. If empty, the value networking of the installation is used.
	// +optional
	Networking NetworkingMode `json:"networking,omitempty" protobuf:"bytes,12,opt,name=networking,casttype=NetworkingMode"`
	// cordoned stops new pods in both directions, like kubectl cordon does for a node: the virtual
	// nodes of the peer are cordoned, and offers to the peer contain no resources. Running pods are
	// not affected. The default is false.
	// +optional
	Cordoned bool `json:"cordoned,omitempty" protobuf:"varint,13,opt,name=cordoned"`
	// mode is the path of control plane traffic between the clusters. The default is OutOfBand.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,14,opt,name=mode,casttype=PeeringMode"`
	// gateway is the gateway of the peer. With mode InBand it is required, and the tunnel to it is
	// established before any other step of the peering. It is ignored with mode OutOfBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,15,opt,name=gateway"`
	// trust selects what the peer, and pods of its users, may do in the local cluster. The peer
	// selects independently what the local cluster may do in the peer. If trust is empty in a new
	// object, the API server sets the trust of the invitation or the value policy.trust of the
	// installation. An update cannot remove it. Only ForeignClusters that version v0.1.0 created have
	// none, which has the effect of SameOwner.
	// +optional
	Trust PeeringTrust `json:"trust,omitempty" protobuf:"bytes,16,opt,name=trust,casttype=PeeringTrust"`
	// reach selects to which local pods the peer may open connections through the tunnel. With every
	// value, the peer may reply to connections of local pods, and may connect to the endpoints that
	// AddressMappings expose to it. Each cluster selects the reach of its peer independently. If
	// empty, the value network.reach of the installation is used. If that is empty, too, it is
	// Offloaded with trust Tenant, and All with trust SameOwner.
	// +optional
	Reach ReachMode `json:"reach,omitempty" protobuf:"bytes,17,opt,name=reach,casttype=ReachMode"`
	// keepCIDRs select the CIDRs of the peer that are not remapped if they are free in the local
	// cluster: those that lie within an entry of this list. All other CIDRs of the peer are remapped
	// to free CIDRs of the AddressPool default. At most 32. If empty, the value network.keepCIDRs of
	// the installation is used. If that is empty, too, trust Tenant remaps all CIDRs of the peer, and
	// trust SameOwner only those that are not free. A change applies only to CIDRs without an
	// AddressMapping.
	// +optional
	// +listType=set
	KeepCIDRs []string `json:"keepCIDRs,omitempty" protobuf:"bytes,18,rep,name=keepCIDRs"`
	// apiAccess determines whether pods on the virtual nodes of the peer have access to the API server
	// of the local cluster with tokens of their ServiceAccounts. spec.apiAccess of a VirtualNode
	// overrides it for that virtual node. If empty, the value policy.apiAccess of the installation is
	// used. If that is empty, too, it is Disabled with trust Tenant, and Consumer with trust SameOwner.
	// +optional
	APIAccess APIAccess `json:"apiAccess,omitempty" protobuf:"bytes,19,opt,name=apiAccess,casttype=APIAccess"`
}

// PeeringTrust selects what a peer, and pods of its users, may do in the local cluster.
// +enum
type PeeringTrust string

const (
	// TrustTenant is for a peer with another owner. It selects the strict defaults that are documented
	// at spec.reach, spec.keepCIDRs, spec.apiAccess and the fields of spec.incomingPolicy; these
	// fields can permit more.
	TrustTenant PeeringTrust = "Tenant"
	// TrustSameOwner is for a peer with the same owner as the local cluster. It selects the permissive
	// defaults that are documented at spec.reach, spec.keepCIDRs, spec.apiAccess and the fields of
	// spec.incomingPolicy; these fields can permit less.
	TrustSameOwner PeeringTrust = "SameOwner"
)

// ReachMode selects which local pods a peer reaches through the tunnel.
// +enum
type ReachMode string

const (
	// ReachOffloaded permits connections to pods that the peer offloaded, and to pods that are
	// endpoints of Services reflected or exported to the peer.
	ReachOffloaded ReachMode = "Offloaded"
	// ReachAll permits connections of the peer to all local pods.
	ReachAll ReachMode = "All"
)

// PeeringMode is the path of control plane traffic between two clusters.
// +enum
type PeeringMode string

const (
	// PeeringOutOfBand connects the consumer to the API server of the provider at its public URL.
	PeeringOutOfBand PeeringMode = "OutOfBand"
	// PeeringInBand sends all control plane traffic through the tunnel between the gateways; the
	// API server of the provider need not be reachable for the consumer.
	PeeringInBand PeeringMode = "InBand"
)

// PeeringGateway is the public key and the endpoints of a gateway, with which another cluster
// establishes a tunnel to it.
type PeeringGateway struct {
	// publicKey is the WireGuard public key of the gateway, 32 bytes in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,1,opt,name=publicKey"`
	// endpoints are the endpoints of the gateway, each a host and UDP port, for example
	// rome.example.org:51820, in order of preference. At most 8. Empty means that no other gateway
	// can reach this gateway, and that it opens the connection itself.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,2,rep,name=endpoints"`
}

// NetworkingMode is the kind of pod connectivity between two clusters.
// +enum
type NetworkingMode string

const (
	// NetworkingNone provides no pod connectivity.
	NetworkingNone NetworkingMode = "None"
	// NetworkingFlat sets up nothing: the pod networks of both clusters are already routed and have
	// disjoint addresses.
	NetworkingFlat NetworkingMode = "Flat"
	// NetworkingTunnel connects the gateways of both clusters with WireGuard; overlapping CIDRs are
	// remapped.
	NetworkingTunnel NetworkingMode = "Tunnel"
)

// PeeringDecision is the decision of an administrator about the resource offers or the resource
// requests of a peer.
// +enum
type PeeringDecision string

const (
	// PeeringAccept accepts the offers or requests, and overrides the value policy.autoAccept of
	// the installation.
	PeeringAccept PeeringDecision = "Accept"
	// PeeringRefuse refuses the offers or requests, and withdraws an earlier acceptance.
	PeeringRefuse PeeringDecision = "Refuse"
	// PeeringManual waits until an administrator decides, and overrides the value policy.autoAccept
	// of the installation. An earlier acceptance remains valid.
	PeeringManual PeeringDecision = "Manual"
)

// PeeringAnswer is the decision of an administrator about the resource offers or the resource
// requests of a peer, and its reason.
type PeeringAnswer struct {
	// decision is Accept, Refuse, or Manual to wait for an administrator. Empty applies the value
	// policy.autoAccept of the installation: true accepts, and false waits for an administrator.
	// +optional
	Decision PeeringDecision `json:"decision,omitempty" protobuf:"bytes,1,opt,name=decision,casttype=PeeringDecision"`
	// reason is shown to the administrators of the peer: one line of at most 256 characters. It is
	// permitted only with decision Accept or Refuse. Empty shows no reason.
	// +optional
	Reason string `json:"reason,omitempty" protobuf:"bytes,2,opt,name=reason"`
}

// OfferShape selects how the nodes of a provider are offered.
// +enum
type OfferShape string

const (
	// OfferAggregate offers the shared nodes as a whole: the consumer has one virtual node, which
	// can be larger than any node of the provider.
	OfferAggregate OfferShape = "Aggregate"
	// OfferPerNode offers each shared node separately, at most 32: the consumer has one virtual
	// node for each shared node.
	OfferPerNode OfferShape = "PerNode"
)

// PeeringPhase is the state of one aspect of a peering, for example its authentication or
// networking.
// +enum
type PeeringPhase string

const (
	// PeeringNone means that this aspect of the peering is disabled and completely removed.
	PeeringNone PeeringPhase = "None"
	// PeeringPending means that this aspect of the peering is being established.
	PeeringPending PeeringPhase = "Pending"
	// PeeringEstablished means that this aspect of the peering is established.
	PeeringEstablished PeeringPhase = "Established"
	// PeeringDisconnecting means that this aspect of the peering, for example its networking, is
	// being removed.
	PeeringDisconnecting PeeringPhase = "Disconnecting"
	// PeeringDenied means that one of the clusters refused the peering.
	PeeringDenied PeeringPhase = "Denied"
	// PeeringError means that this aspect of the peering cannot be established before an
	// administrator makes a change; the message of the condition for the aspect describes the change.
	PeeringError PeeringPhase = "Error"
)

// Condition types of a ForeignCluster.
const (
	// ConditionOutgoingPeering is True while the local cluster has accepted a resource offer of the
	// peer and has virtual nodes for the offer, and False otherwise.
	ConditionOutgoingPeering = "OutgoingPeering"
	// ConditionIncomingPeering is True while the peer has accepted a resource offer of the local
	// cluster, and False otherwise.
	ConditionIncomingPeering = "IncomingPeering"
	// ConditionAuthenticated is True while status.authentication is Established: in each enabled
	// peering, the consumer has its identity at the provider. It is False otherwise.
	ConditionAuthenticated = "Authenticated"
	// ConditionReady is True while a peering is enabled, every enabled peering is established, the
	// provider can be reached, every virtual node is ready, and the end of the outgoing peering does
	// not wait for volumes. Otherwise it is False, with the reason and message of the cause.
	ConditionReady = "Ready"
	// ConditionConsumerAlive is True while the consumer renews its heartbeat, False once the
	// heartbeat is expired, and Unknown before the first heartbeat. It exists while the local
	// cluster is a provider of the peer.
	ConditionConsumerAlive = "ConsumerAlive"
	// ConditionTrustSelected is False while the object has no spec.trust, because version v0.1.0 created
	// it. It does not exist otherwise.
	ConditionTrustSelected = "TrustSelected"
	// ConditionNetworking is True while the tunnel to the peer is connected, and False otherwise. It
	// exists while networking is Tunnel or mode is InBand, from the time when a peering is enabled
	// until the tunnel is removed.
	ConditionNetworking = "Networking"
)

// ForeignClusterStatus is the observed state of the outgoing and the incoming peering with one
// peer.
type ForeignClusterStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// outgoingPeering is the state of the peering in which the local cluster is the consumer.
	// +optional
	OutgoingPeering PeeringPhase `json:"outgoingPeering,omitempty" protobuf:"bytes,2,opt,name=outgoingPeering,casttype=PeeringPhase"`
	// incomingPeering is the state of the peering in which the local cluster is the provider.
	// +optional
	IncomingPeering PeeringPhase `json:"incomingPeering,omitempty" protobuf:"bytes,3,opt,name=incomingPeering,casttype=PeeringPhase"`
	// networking is the state of pod connectivity between the clusters. It is None if spec.networking,
	// or the value networking that applies instead, is None, and after all peerings have ended.
	// +optional
	Networking PeeringPhase `json:"networking,omitempty" protobuf:"bytes,4,opt,name=networking,casttype=PeeringPhase"`
	// latencyMicroseconds is the round-trip time through the tunnel to the gateway of the peer, in
	// microseconds. It is 0 while the tunnel is not connected.
	// +optional
	LatencyMicroseconds int64 `json:"latencyMicroseconds,omitempty" protobuf:"varint,5,opt,name=latencyMicroseconds"`
	// authentication is the state of the identity of the local cluster at the peer for the outgoing
	// peering, and of the identity of the peer at the local cluster for the incoming peering. Without
	// an enabled peering it is None. It is Established if each enabled peering has its identity.
	// Otherwise it is the state of the missing identity; if both are missing, of the identity for the
	// outgoing peering.
	// +optional
	Authentication PeeringPhase `json:"authentication,omitempty" protobuf:"bytes,6,opt,name=authentication,casttype=PeeringPhase"`
	// peerNamespace is the local namespace liqo-peer-<name> with the objects and Secrets for the
	// provider. Empty without an outgoing peering.
	// +optional
	PeerNamespace string `json:"peerNamespace,omitempty" protobuf:"bytes,7,opt,name=peerNamespace"`
	// tenantNamespace is the local namespace liqo-tenant-<name> in which the consumer writes its
	// requests. Empty without an incoming peering.
	// +optional
	TenantNamespace string `json:"tenantNamespace,omitempty" protobuf:"bytes,8,opt,name=tenantNamespace"`
	// remoteTenantNamespace is the namespace on the provider in which the local cluster writes its
	// requests. Empty without an outgoing peering.
	// +optional
	RemoteTenantNamespace string `json:"remoteTenantNamespace,omitempty" protobuf:"bytes,9,opt,name=remoteTenantNamespace"`
	// identityExpirationTime is when the identity of the local cluster at the provider expires. The
	// controllers renew the identity after two thirds of its lifetime. Empty without an identity.
	// +optional
	IdentityExpirationTime *metav1.Time `json:"identityExpirationTime,omitempty" protobuf:"bytes,10,opt,name=identityExpirationTime"`
	// virtualNodes is the number of virtual nodes that represent the peer in the local cluster.
	// +optional
	VirtualNodes int32 `json:"virtualNodes,omitempty" protobuf:"varint,11,opt,name=virtualNodes"`
	// gateway is the gateway of the local cluster, which an administrator of the peer sets as
	// spec.gateway of its ForeignCluster. Empty unless mode is InBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,12,opt,name=gateway"`
	// conditions are OutgoingPeering, IncomingPeering and Authenticated, which explain
	// outgoingPeering, incomingPeering and authentication; Ready, which is True while every enabled
	// peering is established, the provider can be reached, and every virtual node is ready;
	// ConsumerAlive, which is False once the heartbeat of the consumer is expired; Networking, which
	// is True while the tunnel is connected; VolumesReleased, which is False while the end of the
	// outgoing peering waits until data on the provider is moved or deleted; and TrustSelected, which
	// is False while spec.trust is empty. The message of a condition that is not True states what to
	// do.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,13,rep,name=conditions"`
	// policies are the policies of the local cluster that are in force for the peer: those whose
	// defaults spec.trust selects, and spec.incomingPolicy.refusedPods. A policy has one entry, but
	// incomingPolicy.objects has one for each source of its limits. At most 32.
	// +optional
	// +listType=atomic
	Policies []EffectivePolicy `json:"policies,omitempty" protobuf:"bytes,14,rep,name=policies"`
}

// EffectivePolicy is a policy of the local cluster that is in force for a peer.
type EffectivePolicy struct {
	// name is the path, below spec, of the field that sets the policy for this peer, for example
	// incomingPolicy.pods.tolerations.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// binds is the role of the peer in which the policy binds the peer.
	Binds PeerRole `json:"binds" protobuf:"bytes,2,opt,name=binds,casttype=PeerRole"`
	// value is what the policy permits or selects, for example none, any, unlimited, or a list of
	// names. Numbers have the unit of the field. A list of more than 512 bytes is cut, and ends with
	// the number of names that are missing.
	Value string `json:"value" protobuf:"bytes,3,opt,name=value"`
	// source is where the value comes from.
	Source PolicySource `json:"source" protobuf:"bytes,4,opt,name=source,casttype=PolicySource"`
}

// PeerRole is the role of a peer in a peering with the local cluster.
// +enum
type PeerRole string

const (
	// PeerRoleConsumer means that the policy binds the peer as a consumer of the local cluster.
	PeerRoleConsumer PeerRole = "Consumer"
	// PeerRoleProvider means that the policy binds the peer as a provider of the local cluster.
	PeerRoleProvider PeerRole = "Provider"
	// PeerRoleBoth means that the policy binds the peer in both roles.
	PeerRoleBoth PeerRole = "Both"
)

// PolicySource is the origin of the value of a policy.
// +enum
type PolicySource string

const (
	// PolicySourceField means that a field of the ForeignCluster sets the value.
	PolicySourceField PolicySource = "Field"
	// PolicySourceValue means that a value of the installation sets it.
	PolicySourceValue PolicySource = "Value"
	// PolicySourceTrust means that it is the default of spec.trust; of SameOwner if spec.trust is empty.
	PolicySourceTrust PolicySource = "Trust"
	// PolicySourceDefault means that it is the default, which does not depend on spec.trust.
	PolicySourceDefault PolicySource = "Default"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ForeignClusterList is a list of ForeignClusters.
type ForeignClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ForeignClusters.
	Items []ForeignCluster `json:"items" protobuf:"bytes,2,rep,name=items"`
}
