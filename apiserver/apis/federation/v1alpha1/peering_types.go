// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Peering is the view of a ForeignCluster that the verb peer works on: POST
// takes a provider's invitation, DELETE unpeers. It carries the name, uid and
// resourceVersion of its ForeignCluster.
type Peering struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is that of the ForeignCluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what peering is wanted.
	Spec PeeringSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is how the peering stands.
	// +optional
	Status PeeringStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringSpec is what a provider's invitation carries, and what this cluster
// wants of it.
type PeeringSpec struct {
	// outgoing says whether this cluster borrows from the other one: Enabled
	// (the default of a POST) or Disabled, which unpeers.
	// +optional
	Outgoing PeeringIntent `json:"outgoing,omitempty" protobuf:"bytes,1,opt,name=outgoing,casttype=PeeringIntent"`
	// clusterID is the provider's cluster id: the UID of its kube-system
	// namespace.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,2,opt,name=clusterID"`
	// server is the https URL of the provider's Kubernetes API.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,3,opt,name=server"`
	// caBundle is the PEM encoded bundle of certificate authorities that the
	// server's certificate is verified with. Empty means the system's.
	// +optional
	CABundle []byte `json:"caBundle,omitempty" protobuf:"bytes,4,opt,name=caBundle"`
	// proxyURL is the http or https URL of a proxy on the way to that server.
	// Empty means that there is none.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty" protobuf:"bytes,5,opt,name=proxyURL"`
	// token is the invitation itself. It is write-only: it is kept in a Secret
	// and never shown again.
	// +optional
	Token string `json:"token,omitempty" protobuf:"bytes,6,opt,name=token"`
	// resources is what this cluster asks for; empty asks for whatever the
	// provider is willing to lend.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,7,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// disconnectTimeoutSeconds bounds how long unpeering waits for the other
	// side; after that this side gets clean by itself. Without it that of the
	// ForeignCluster stays as it is, 300 at first.
	// +optional
	DisconnectTimeoutSeconds *int32 `json:"disconnectTimeoutSeconds,omitempty" protobuf:"varint,8,opt,name=disconnectTimeoutSeconds"`
	// incoming says whether this cluster lends to the other one. A POST may say
	// Enabled where mode is InBand: then the other cluster is let in by the
	// tunnel, and needs an invitation all the same.
	// +optional
	Incoming PeeringIntent `json:"incoming,omitempty" protobuf:"bytes,9,opt,name=incoming,casttype=PeeringIntent"`
	// mode is OutOfBand (the default), or InBand, where the control plane goes
	// through the tunnel between the gateways.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,10,opt,name=mode,casttype=PeeringMode"`
	// gateway is the other cluster's; InBand needs it.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,11,opt,name=gateway"`
}

// PeeringStatus is how a peering stands, as in the status of its
// ForeignCluster.
type PeeringStatus struct {
	// outgoingPeering is how the borrowing stands.
	// +optional
	OutgoingPeering PeeringPhase `json:"outgoingPeering,omitempty" protobuf:"bytes,1,opt,name=outgoingPeering,casttype=PeeringPhase"`
	// incomingPeering is how the lending stands.
	// +optional
	IncomingPeering PeeringPhase `json:"incomingPeering,omitempty" protobuf:"bytes,2,opt,name=incomingPeering,casttype=PeeringPhase"`
	// authentication is how the identities of the clusters stand.
	// +optional
	Authentication PeeringPhase `json:"authentication,omitempty" protobuf:"bytes,3,opt,name=authentication,casttype=PeeringPhase"`
	// conditions are those of the ForeignCluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,4,rep,name=conditions"`
	// gateway is this cluster's own, as the other cluster has to know it, where
	// mode is InBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,5,opt,name=gateway"`
	// command is the one line that lets this cluster in by the tunnel, to be run
	// against the other one, where mode is InBand.
	// +optional
	Command string `json:"command,omitempty" protobuf:"bytes,6,opt,name=command"`
	// plan is what the request would lead to, in answers to dryRun=All only.
	// +optional
	Plan *PeeringPlan `json:"plan,omitempty" protobuf:"bytes,7,opt,name=plan"`
}
