// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Peering is the body of requests to the verb peer of a ForeignCluster, and of their responses.
// POST uses an invitation, and creates the ForeignCluster if there is none; PUT and PATCH change
// the peering; DELETE ends the outgoing peering. It is not stored.
type Peering struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the name, uid and resourceVersion of the ForeignCluster. In a request, uid and
	// resourceVersion are preconditions.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the invitation, and the desired state of the peering.
	Spec PeeringSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the ForeignCluster, and the plan of a dry run.
	// +optional
	Status PeeringStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringSpec is an invitation, and the desired state of the peering. Its fields are written to the
// spec of the ForeignCluster; in a POST, empty fields leave it unchanged.
type PeeringSpec struct {
	// outgoing enables the peering in which the local cluster is the consumer. The default of a
	// POST is Enabled; Disabled is permitted in a POST with incoming Enabled only. PUT and PATCH
	// with Disabled end the outgoing peering.
	// +optional
	Outgoing PeeringIntent `json:"outgoing,omitempty" protobuf:"bytes,1,opt,name=outgoing,casttype=PeeringIntent"`
	// clusterID is the UID of the namespace kube-system of the peer. Empty takes the ID of the
	// cluster that answers at server. Mode InBand requires it. It cannot change once it is set.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,2,opt,name=clusterID"`
	// server is the https URL of the Kubernetes API of the provider. It is required if outgoing is
	// Enabled.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,3,opt,name=server"`
	// caBundle holds the PEM encoded certificate authorities that the certificate of server is
	// verified with. Empty uses the authorities of the system.
	// +optional
	CABundle []byte `json:"caBundle,omitempty" protobuf:"bytes,4,opt,name=caBundle"`
	// proxyURL is the URL of an http or https proxy on the path to server. Empty connects directly.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty" protobuf:"bytes,5,opt,name=proxyURL"`
	// token is the token of the invitation, at most 16 KiB. The first POST with outgoing Enabled
	// requires it; in a PUT or PATCH it replaces the stored one. It is stored in a Secret, and is
	// never part of a response.
	// +optional
	Token string `json:"token,omitempty" protobuf:"bytes,6,opt,name=token"`
	// resources is the amount of each resource that the local cluster requests of the provider.
	// Empty requests all that the policy of the provider allows.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,7,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// disconnectTimeoutSeconds is the time, in seconds, that the end of the peering waits for the
	// peer, 0 to 86400. Empty in a POST keeps the value in the ForeignCluster, which is 300 by
	// default.
	// +optional
	DisconnectTimeoutSeconds *int32 `json:"disconnectTimeoutSeconds,omitempty" protobuf:"varint,8,opt,name=disconnectTimeoutSeconds"`
	// incoming enables the peering in which the local cluster is the provider. It can be set to
	// Enabled with mode InBand only, which admits the gateway of the peer; the peer needs an
	// invitation in addition. Empty leaves it unchanged.
	// +optional
	Incoming PeeringIntent `json:"incoming,omitempty" protobuf:"bytes,9,opt,name=incoming,casttype=PeeringIntent"`
	// mode is the path of control plane traffic between the clusters. Empty leaves it unchanged;
	// the default of a ForeignCluster is OutOfBand.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,10,opt,name=mode,casttype=PeeringMode"`
	// gateway is the gateway of the peer. It is required with mode InBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,11,opt,name=gateway"`
}

// PeeringStatus is the observed state of a peering.
type PeeringStatus struct {
	// outgoingPeering is the state of the peering in which the local cluster is the consumer.
	// +optional
	OutgoingPeering PeeringPhase `json:"outgoingPeering,omitempty" protobuf:"bytes,1,opt,name=outgoingPeering,casttype=PeeringPhase"`
	// incomingPeering is the state of the peering in which the local cluster is the provider.
	// +optional
	IncomingPeering PeeringPhase `json:"incomingPeering,omitempty" protobuf:"bytes,2,opt,name=incomingPeering,casttype=PeeringPhase"`
	// authentication is the state of the identities of the enabled directions.
	// +optional
	Authentication PeeringPhase `json:"authentication,omitempty" protobuf:"bytes,3,opt,name=authentication,casttype=PeeringPhase"`
	// conditions are status.conditions of the ForeignCluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,4,rep,name=conditions"`
	// gateway is the gateway of the local cluster, which the peer needs. It is set if mode is
	// InBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,5,opt,name=gateway"`
	// command is the kubectl command that an administrator of the provider runs to admit the local
	// cluster. It is set with mode InBand and outgoing Enabled.
	// +optional
	Command string `json:"command,omitempty" protobuf:"bytes,6,opt,name=command"`
	// plan is the effect of the request. It is set in responses to dryRun=All only.
	// +optional
	Plan *PeeringPlan `json:"plan,omitempty" protobuf:"bytes,7,opt,name=plan"`
}
