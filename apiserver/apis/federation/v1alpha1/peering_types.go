// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Peering is the body of requests to the verb peer of a ForeignCluster, and of their responses.
// POST establishes a peering with an invitation, and creates the ForeignCluster if it does not
// exist; PUT and PATCH change the peering; DELETE ends the outgoing peering. A Peering is not
// stored.
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

// PeeringSpec is the invitation and the desired state of the peering. Its fields are written to the
// spec of the ForeignCluster. In a POST, empty fields do not change the ForeignCluster.
type PeeringSpec struct {
	// outgoing enables the peering in which the local cluster is the consumer. The default in a
	// POST is Enabled; a POST may set Disabled only together with incoming Enabled. PUT and PATCH
	// with Disabled end the outgoing peering.
	// +optional
	Outgoing PeeringIntent `json:"outgoing,omitempty" protobuf:"bytes,1,opt,name=outgoing,casttype=PeeringIntent"`
	// clusterID is the UID of the namespace kube-system of the peer. If it is empty, the
	// controllers set it to the ID of the cluster that responds at server. It is required with mode
	// InBand, and cannot change once it is set.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,2,opt,name=clusterID"`
	// server is the https URL of the Kubernetes API of the provider. It is required if outgoing is
	// Enabled.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,3,opt,name=server"`
	// caBundle holds the PEM encoded certificate authorities that the certificate of server is
	// verified with. If empty, the system's root certificates are used.
	// +optional
	CABundle []byte `json:"caBundle,omitempty" protobuf:"bytes,4,opt,name=caBundle"`
	// proxyURL is the URL of an http or https proxy for connections to server. If empty,
	// connections are made directly.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty" protobuf:"bytes,5,opt,name=proxyURL"`
	// token is the token of the invitation, at most 16 KiB. It is required in the first POST with
	// outgoing Enabled. In a PUT or PATCH it replaces the stored token, and empty keeps the stored
	// token. It is stored in a Secret and never returned.
	// +optional
	Token string `json:"token,omitempty" protobuf:"bytes,6,opt,name=token"`
	// resources is the amount of each resource that the local cluster requests from the provider.
	// Empty requests as much as the policy of the provider allows.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,7,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// disconnectTimeoutSeconds is the time, in seconds, to wait for the peer when the peering ends,
	// 0 to 86400. Empty in a POST keeps the value in the ForeignCluster, which is 300 by default.
	// +optional
	DisconnectTimeoutSeconds *int32 `json:"disconnectTimeoutSeconds,omitempty" protobuf:"varint,8,opt,name=disconnectTimeoutSeconds"`
	// incoming enables the peering in which the local cluster is the provider. Enabled is permitted
	// only with mode InBand, and admits the gateway of the peer; in addition, the peer needs an
	// invitation. Empty does not change it.
	// +optional
	Incoming PeeringIntent `json:"incoming,omitempty" protobuf:"bytes,9,opt,name=incoming,casttype=PeeringIntent"`
	// mode is the path of control plane traffic between the clusters. Empty does not change it; the
	// default of a new ForeignCluster is OutOfBand.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,10,opt,name=mode,casttype=PeeringMode"`
	// gateway is the gateway of the peer. It is required with mode InBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,11,opt,name=gateway"`
}

// PeeringStatus is the observed state of both peerings with the peer, and the plan of a dry run.
type PeeringStatus struct {
	// outgoingPeering is the state of the peering in which the local cluster is the consumer.
	// +optional
	OutgoingPeering PeeringPhase `json:"outgoingPeering,omitempty" protobuf:"bytes,1,opt,name=outgoingPeering,casttype=PeeringPhase"`
	// incomingPeering is the state of the peering in which the local cluster is the provider.
	// +optional
	IncomingPeering PeeringPhase `json:"incomingPeering,omitempty" protobuf:"bytes,2,opt,name=incomingPeering,casttype=PeeringPhase"`
	// authentication is status.authentication of the ForeignCluster.
	// +optional
	Authentication PeeringPhase `json:"authentication,omitempty" protobuf:"bytes,3,opt,name=authentication,casttype=PeeringPhase"`
	// conditions are status.conditions of the ForeignCluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,4,rep,name=conditions"`
	// gateway is the gateway of the local cluster, which an administrator of the peer needs for
	// mode InBand. Empty with mode OutOfBand.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,5,opt,name=gateway"`
	// command is the kubectl command that an administrator of the provider runs to admit the local
	// cluster. Empty unless mode is InBand and outgoing is Enabled.
	// +optional
	Command string `json:"command,omitempty" protobuf:"bytes,6,opt,name=command"`
	// plan describes what the request would do. It is set only in responses to requests with
	// dryRun=All.
	// +optional
	Plan *PeeringPlan `json:"plan,omitempty" protobuf:"bytes,7,opt,name=plan"`
}
