// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IncomingPolicy is the policy of a provider for one consumer.
type IncomingPolicy struct {
	PeeringAnswer `json:",inline" protobuf:"bytes,1,opt,name=peeringAnswer"`
	// sharePercent is the percentage of the allocatable resources of the shared nodes that the
	// consumer is offered, 1 to 100. If empty, the value policy.sharePercent of the installation
	// is used.
	// +optional
	SharePercent *int32 `json:"sharePercent,omitempty" protobuf:"varint,2,opt,name=sharePercent"`
	// limits is the maximum amount of each resource, including extended resources, that the
	// consumer is offered; 0 offers none of the resource. requests.storage, persistentvolumeclaims
	// and <class>.storageclass.storage.k8s.io/requests.storage limit the claims of the consumer;
	// without requests.storage no storage is offered. Resources that are not listed use the value
	// policy.limits of the installation.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty" protobuf:"bytes,3,rep,name=limits,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// nodeSelector selects, by labels, the nodes that are shared with the consumer: offers are
	// computed from their resources, and new pods of the consumer run only on them. A change does
	// not affect running pods. If empty, the value policy.nodeSelector of the installation is
	// used.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty" protobuf:"bytes,4,rep,name=nodeSelector"`
	// shape selects how the shared nodes are offered. If empty, the value policy.shape of the
	// installation is used.
	// +optional
	Shape OfferShape `json:"shape,omitempty" protobuf:"bytes,5,opt,name=shape,casttype=OfferShape"`
	// labels are added to the virtual nodes of the consumer. They are merged with the value
	// clusterLabels of the installation, and override its labels with the same keys.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,6,rep,name=labels"`
	// storageClasses are the names of the StorageClasses that claims of the consumer may use, the
	// default class first. At most 64. If empty, the value policy.storageClasses of the
	// installation is used.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,7,rep,name=storageClasses"`
	// ingressClasses are the names of the IngressClasses that Ingresses of the consumer may use,
	// the default class first; an Ingress with another class is refused. At most 64. If empty, the
	// value policy.ingressClasses of the installation is used.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,8,rep,name=ingressClasses"`
	// loadBalancerClasses are the load balancer classes that Services of the consumer may use, the
	// default class first; a Service with another class is refused. At most 64. If empty, the
	// value policy.loadBalancerClasses of the installation is used.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,9,rep,name=loadBalancerClasses"`
	// orphanTTL is how long the workloads of the consumer are kept after its last heartbeat, for
	// example 72h. Then the incoming peering ends, and the workloads are deleted. At least 1m; 0s
	// keeps them without a limit. If empty, the value policy.orphanTTL of the installation is used,
	// which is 0s by default. A consumer that has never sent a heartbeat is not affected.
	// +optional
	OrphanTTL *metav1.Duration `json:"orphanTTL,omitempty" protobuf:"bytes,10,opt,name=orphanTTL"`
	// externalVolumes are the volume types and CSI drivers that pods of the consumer may use
	// without a claim. If empty, the value policy.externalVolumes of the installation is used,
	// which is empty by default.
	// +optional
	ExternalVolumes ExternalVolumes `json:"externalVolumes,omitzero" protobuf:"bytes,11,opt,name=externalVolumes"`
	// remoteNamespaces are the names that the consumer may select for its remote namespaces, each with
	// at most one *, which stands for any characters, for example team-a-*. Names that the mapping
	// DefaultName generates are permitted in addition, and names of system namespaces never. A name
	// that is a top-level domain, for example dev, is permitted only by an entry without *, because
	// pods could resolve host names in this domain to Services of the namespace.
	// At most 64. If empty, the value policy.remoteNamespaces of the installation is used. If that is
	// empty, too, trust Tenant permits no other names, and trust SameOwner any.
	// +optional
	// +listType=set
	RemoteNamespaces []string `json:"remoteNamespaces,omitempty" protobuf:"bytes,12,rep,name=remoteNamespaces"`
	// pods limits what pods of the consumer may set. For each empty field, the corresponding value
	// under policy.pods of the installation is used. If that is empty, too, trust SameOwner permits
	// everything, and trust Tenant permits no tolerations, RuntimeClasses and metadata keys, and a
	// termination grace period of at most one hour.
	// +optional
	Pods PodPolicy `json:"pods,omitzero" protobuf:"bytes,13,opt,name=pods"`
	// objects is the maximum number of objects of the consumer in each remote namespace, by the names
	// of a ResourceQuota: count/<resource>.<group>, for example count/configmaps,
	// services.loadbalancers and services.nodeports. At most 32. A name that is not listed has the
	// number in the value policy.objects of the installation. A name that is not listed there either
	// has no maximum with trust SameOwner. With trust Tenant, the maximum is 100 ConfigMaps, 100
	// Secrets, 100 Services, 20 Ingresses, 100 objects of each other reflected kind, no node ports and
	// no load balancers.
	// +optional
	Objects corev1.ResourceList `json:"objects,omitempty" protobuf:"bytes,14,rep,name=objects,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// externalNames are the DNS names that spec.externalName of the consumer's Services may have, each
	// with at most one *, which stands for any characters, for example *.example.com. At most 64. If
	// empty, the value policy.externalNames of the installation is used. If that is empty, too, trust
	// Tenant permits none, and trust SameOwner any.
	// +optional
	// +listType=set
	ExternalNames []string `json:"externalNames,omitempty" protobuf:"bytes,15,rep,name=externalNames"`
	// network selects the permitted connections to and from pods of the consumer. If empty, the value
	// policy.network.access of the installation is used. If that is empty, too, network is Isolated
	// with trust Tenant, and Open with trust SameOwner.
	// +optional
	Network NetworkAccess `json:"network,omitempty" protobuf:"bytes,16,opt,name=network,casttype=NetworkAccess"`
	// maxRemoteNamespaces is the maximum number of remote namespaces of the consumer, at least 1. If
	// empty, the value policy.maxRemoteNamespaces of the installation is used. If that is empty, too, it
	// is 20 with trust Tenant, and unlimited with trust SameOwner.
	// +optional
	MaxRemoteNamespaces *int32 `json:"maxRemoteNamespaces,omitempty" protobuf:"varint,17,opt,name=maxRemoteNamespaces"`
	// refusedPods determines what happens to running pods of the consumer that exceed the limits in
	// the field pods after a change of these limits or of spec.trust. The default is Keep.
	// +optional
	RefusedPods RefusedPodsPolicy `json:"refusedPods,omitempty" protobuf:"bytes,18,opt,name=refusedPods,casttype=RefusedPodsPolicy"`
	// maxObjectBytes is the maximum size, in bytes, of each ConfigMap, Secret, Service, Ingress and
	// other reflected object of the consumer, with its metadata, at least 4096. If empty, the value
	// policy.maxObjectBytes of the installation is used. If that is empty, too, it is 131072 with trust
	// Tenant, and unlimited with trust SameOwner.
	// +optional
	MaxObjectBytes *int64 `json:"maxObjectBytes,omitempty" protobuf:"varint,19,opt,name=maxObjectBytes"`
}

// RefusedPodsPolicy determines what happens to running pods of a consumer that the PodPolicy for
// them no longer permits, because the PodPolicy or spec.trust of the ForeignCluster changed.
// +enum
type RefusedPodsPolicy string

const (
	// RefusedPodsKeep lets the pods run until the consumer deletes them.
	RefusedPodsKeep RefusedPodsPolicy = "Keep"
	// RefusedPodsEvict evicts the pods, within their PodDisruptionBudgets on the provider.
	RefusedPodsEvict RefusedPodsPolicy = "Evict"
)

// NetworkAccess selects the permitted connections to and from pods of a consumer.
// +enum
type NetworkAccess string

const (
	// NetworkIsolated permits connections between pods in the remote namespaces of the consumer,
	// between these pods and the consumer's cluster, from the namespaces in the value
	// policy.network.ingressFrom, to DNS servers, and to addresses outside of the provider, except
	// link-local addresses, metadata services of clouds, addresses of other peers, and the CIDRs in
	// the value policy.refusedEndpointCIDRs. The controllers create a
	// NetworkPolicy with these rules in each remote namespace; the network plugin of the provider must
	// enforce it.
	NetworkIsolated NetworkAccess = "Isolated"
	// NetworkOpen permits every connection that NetworkPolicies in the provider do not prevent.
	NetworkOpen NetworkAccess = "Open"
)

// PodPolicy limits what pods of a consumer may set. In a ResourceOffer, an empty list permits
// nothing, and an empty maxGracePeriodSeconds permits any grace period.
type PodPolicy struct {
	// tolerations are the keys of the taints that pods may tolerate, each with at most one *, which
	// stands for any characters, for example nvidia.com/*. At most 64. Whatever the list contains, the
	// taints node.kubernetes.io/not-ready and node.kubernetes.io/unreachable may be tolerated, and
	// other taints of Kubernetes, of node roles and of virtual nodes may not.
	// +optional
	// +listType=set
	Tolerations []string `json:"tolerations,omitempty" protobuf:"bytes,1,rep,name=tolerations"`
	// runtimeClasses are the names of the RuntimeClasses that pods may use, the default first. At most
	// 64. Pods without a RuntimeClass get the default. A list with only * permits all RuntimeClasses,
	// and has no default.
	// +optional
	// +listType=atomic
	RuntimeClasses []string `json:"runtimeClasses,omitempty" protobuf:"bytes,2,rep,name=runtimeClasses"`
	// metadataKeys permit labels and annotations of pods and reflected objects that are otherwise
	// dropped or refused, because they control components of the provider, for example a service mesh.
	// Each is a key with at most one *, which stands for any characters, for example
	// sidecar.istio.io/*. At most 64. Labels and annotations that control no component are always
	// permitted.
	// +optional
	// +listType=set
	MetadataKeys []string `json:"metadataKeys,omitempty" protobuf:"bytes,3,rep,name=metadataKeys"`
	// maxGracePeriodSeconds is the maximum of terminationGracePeriodSeconds of pods, in seconds, 30 to
	// 2147483647. It limits how long pods delay the drain of a node.
	// +optional
	MaxGracePeriodSeconds *int64 `json:"maxGracePeriodSeconds,omitempty" protobuf:"varint,4,opt,name=maxGracePeriodSeconds"`
	// limits determines whether pods must limit their consumption of memory and ephemeral storage. If
	// empty in a ForeignCluster, the value policy.pods.limits of the installation is used; if that is
	// empty, too, and in a ResourceOffer, empty means Any.
	// +optional
	Limits PodLimitsPolicy `json:"limits,omitempty" protobuf:"bytes,5,opt,name=limits,casttype=PodLimitsPolicy"`
}

// PodLimitsPolicy determines whether pods may use more than they request.
// +enum
type PodLimitsPolicy string

const (
	// PodLimitsAny permits containers without limits.
	PodLimitsAny PodLimitsPolicy = "Any"
	// PodLimitsRequired requires that each container and init container has a limit for memory and one
	// for ephemeral-storage, none of which is greater than its request. Quotas count requests, so that
	// they also limit what pods use.
	PodLimitsRequired PodLimitsPolicy = "Required"
)
