// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels, annotations and other names that users write in manifests or select objects by. They are
// part of the API and must not change.
const (
	// LabelType is the label that identifies virtual nodes, with the value TypeVirtualNode.
	LabelType = "liqo.io/type"
	// TypeVirtualNode is the value of LabelType on a virtual node.
	TypeVirtualNode = "virtual-node"
	// VirtualNodePrefix is the prefix of the names of virtual nodes. Virtual kubelets have access
	// to Nodes with this prefix only.
	VirtualNodePrefix = "liqo-"
	// LabelRemoteClusterID, on a virtual node, is the ID of the provider.
	LabelRemoteClusterID = "liqo.io/remote-cluster-id"
	// LabelSchedulingEnabled, on a namespace, is "true" while the namespace is offloaded. The
	// placement of pods is enforced only in namespaces with this label. If a namespace has the
	// label and no NamespaceOffloading, its new pods are refused.
	LabelSchedulingEnabled = "liqo.io/scheduling-enabled"
	// LabelOrigin, on a reflected object, is the ID of the cluster that it was reflected from. On
	// the AddressMapping of a pod it is the ID of the cluster that the pod runs on. On the
	// AddressMapping of the local API server or of another non-pod endpoint it is the ID of the
	// local cluster.
	LabelOrigin = "offloading.liqo.io/origin"
	// LabelDestination, on a reflected object, is the ID of the cluster that it was reflected to.
	LabelDestination = "offloading.liqo.io/destination"
	// LabelVirtualNode, on a shadow pod and its remote pod, is the name of the virtual node that
	// the local pod is bound to. Only the virtual kubelet of this virtual node changes the shadow
	// pod.
	LabelVirtualNode = "offloading.liqo.io/virtual-node"
	// LabelExported, on a reflected Service, is "true" if the consumer has a ServiceExport for it.
	// The controllers of the provider then create a ServiceImport.
	LabelExported = "offloading.liqo.io/exported"
	// AnnotationSkipReflection excludes an object from reflection. Any value except "false" has
	// this effect.
	AnnotationSkipReflection = "liqo.io/skip-reflection"
	// AnnotationAllowReflection includes an object in reflection if the reflection policy of its
	// kind is AllowList. Any value except "false" has this effect.
	AnnotationAllowReflection = "liqo.io/allow-reflection"
	// AnnotationReflectTo limits the reflection of an object to the clusters with these cluster IDs,
	// separated by commas. An empty value excludes the object from reflection.
	AnnotationReflectTo = "liqo.io/reflect-to"
	// AnnotationForceRemoteNodePort, on a Service, requests the same node ports for the reflected
	// Service. Any value except "false" has this effect.
	AnnotationForceRemoteNodePort = "liqo.io/force-remote-node-port"
	// AnnotationRemoteStorageClass, on a PersistentVolumeClaim, is the StorageClass of the volume on a
	// provider. Without it, the volume has the StorageClass in ParameterLocalStorageClass if the
	// provider offers one of this name, and otherwise the default StorageClass of the offer, its first
	// one.
	AnnotationRemoteStorageClass = "liqo.io/remote-storage-class"
	// StorageProvisioner is the provisioner of the virtual StorageClass, and the CSI driver of
	// volumes whose data a provider stores. No node has this driver, so no local kubelet mounts
	// these volumes.
	StorageProvisioner = "storage.liqo.io"
	// ParameterLocalStorageClass is the parameter of a virtual StorageClass that names the
	// StorageClass of volumes in the local cluster. Without it, these volumes have the default
	// StorageClass.
	ParameterLocalStorageClass = "localStorageClassName"
	// SchedulingGateMoving is the scheduling gate of pods that mount a claim whose data is being
	// moved.
	SchedulingGateMoving = "storage.liqo.io/moving"
	// AnnotationAPIAccess, on a pod, disables its access to the consumer's API server while it runs
	// on a provider. Any value except "Consumer" has this effect.
	AnnotationAPIAccess = "liqo.io/api-access"
	// TaintVirtualNode is the taint of virtual nodes, with value "true" and effect NoExecute. Only
	// pods of offloaded namespaces tolerate it.
	TaintVirtualNode = "virtual-node.liqo.io/not-allowed"
)

// Labels, annotations and other names that only components of the federation write.
const (
	// LabelForeignCluster, on a namespace or another object, is the name of the ForeignCluster of
	// the peer that it was created for.
	LabelForeignCluster = "federation.liqo.io/foreign-cluster"
	// LabelRole, on a namespace, is its role: RoleTenant, RolePeer or RoleRemoteNamespace.
	LabelRole = "federation.liqo.io/role"
	// RoleTenant is the role of a tenant namespace, where a consumer writes its requests on a
	// provider.
	RoleTenant = "tenant"
	// RolePeer is the role of a peer namespace, where a consumer keeps its objects and Secrets for
	// a provider.
	RolePeer = "peer"
	// RoleRemoteNamespace is the role of a remote namespace.
	RoleRemoteNamespace = "twin"
	// LabelManagedBy identifies objects that the controllers manage, with the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "federation.liqo.io"
	// AnnotationOriginNamespace, on a remote namespace and on reflected objects, is the name of the
	// namespace on the consumer. On the AddressMapping of a non-pod endpoint it is the local
	// namespace of the Services with this endpoint.
	AnnotationOriginNamespace = "offloading.liqo.io/origin-namespace"
	// AnnotationOriginUID, on a shadow pod and its remote pod, is the UID of the local pod; a local
	// pod never has two remote pods at a time. On a reflected object of a kind that is not reflected
	// by default, it is the UID of the local object.
	AnnotationOriginUID = "offloading.liqo.io/origin-uid"
	// AnnotationOriginPod, on the AddressMapping of a pod, is the namespace and name of the pod.
	AnnotationOriginPod = "offloading.liqo.io/origin-pod"
	// AnnotationCordoned, on a Node, means that the controllers cordoned the virtual node because
	// spec.cordoned of its ForeignCluster is true. On a ResourceOffer it contains, as JSON, the
	// resources, nodes and storage that the offer had before its consumer was cordoned.
	AnnotationCordoned = "federation.liqo.io/cordoned"
	// AnnotationIdentityRequest, on a ForeignCluster, is the name of the IdentityRequest that the
	// controllers of the provider created it for.
	AnnotationIdentityRequest = "federation.liqo.io/identity-request"
	// AnnotationIngressClasses and AnnotationLoadBalancerClasses, on a remote namespace, are the
	// IngressClasses and load balancer classes that the consumer may use, separated by commas, for
	// example shared,shared-internal. The ValidatingAdmissionPolicy federation-peers enforces them.
	// Without the annotation, the value policy.ingressClasses or policy.loadBalancerClasses of the
	// installation applies, which permits all classes if it is empty.
	AnnotationIngressClasses      = "federation.liqo.io/ingress-classes"
	AnnotationLoadBalancerClasses = "federation.liqo.io/load-balancer-classes"
	// AnnotationExternalNames, on a remote namespace, has the patterns of the DNS names that
	// spec.externalName of the consumer's Services may have, separated by commas, for example
	// *.example.com. The ValidatingAdmissionPolicy federation-peers enforces it. Without the
	// annotation all names are permitted.
	AnnotationExternalNames = "federation.liqo.io/external-names"
	// AnnotationNetworkAccess, on a remote namespace, is Isolated if NetworkIsolated applies to the
	// pods of the consumer. The ValidatingAdmissionPolicy federation-peers then refuses reflected
	// NetworkPolicies, which could permit more. Without the annotation, NetworkOpen applies.
	AnnotationNetworkAccess = "federation.liqo.io/network-access"
	// AnnotationMaxObjectBytes, on a remote namespace, is the maximum size of an object of the
	// consumer in bytes. AnnotationMetadataKeys has the patterns in metadataKeys of the limits for
	// pods of the consumer, separated by commas. The ValidatingAdmissionPolicy federation-peers
	// enforces both. Without AnnotationMaxObjectBytes objects have any size, and without
	// AnnotationMetadataKeys any labels and annotations.
	AnnotationMaxObjectBytes = "federation.liqo.io/max-object-bytes"
	AnnotationMetadataKeys   = "federation.liqo.io/metadata-keys"
	// AnnotationReflectedKeys, on a reflected object, lists the keys of the labels and annotations
	// that reflection wrote. Other labels and annotations of the object belong to the provider and
	// are not changed.
	AnnotationReflectedKeys = "offloading.liqo.io/reflected-keys"
	// AnnotationAccounts, on an offloaded namespace, lists the ServiceAccounts of pods on virtual
	// nodes, separated by spaces, each as <peer namespace>:<ServiceAccount of the virtual
	// kubelet>:<ServiceAccount of the pod>. Virtual kubelets may request tokens only of the listed
	// ServiceAccounts.
	AnnotationAccounts = "offloading.liqo.io/accounts"
	// AnnotationTokenSecret, on a shadow pod and its remote pod, is the name of the Secret with its
	// tokens for the consumer's API server, in the same namespace.
	AnnotationTokenSecret = "offloading.liqo.io/token-secret"
	// AnnotationRenewAfter, on a Secret of type SecretTypeTokens, is the time in RFC 3339 format
	// after which the virtual kubelet renews the tokens.
	AnnotationRenewAfter = "offloading.liqo.io/renew-after"
	// AnnotationReflectedHash, on a reflected object of a kind that is not reflected by default, is
	// the hash of the local object at the time of the last reflection.
	AnnotationReflectedHash = "offloading.liqo.io/reflected-hash"
	// Finalizer delays the deletion of an object until the controllers have finished their work for
	// it, for example of a ForeignCluster until its peerings have ended, and of a remote pod until
	// the ShadowPod has its final status.
	Finalizer = "federation.liqo.io/finalizer"
	// PeerGroup is the group of users that are peers, and thus the only organization in the
	// certificates of peers.
	PeerGroup = "liqo:peers"
	// SecretTypeInvitation is the type of Secrets with the token of an invitation. Tokens in
	// Secrets of other types are ignored.
	SecretTypeInvitation = "federation.liqo.io/invitation"
	// SecretTypeIdentity is the type of Secrets with the identity of the local cluster at a
	// provider.
	SecretTypeIdentity = "federation.liqo.io/identity"
	// SecretTypeTokens is the type of Secrets on a provider with the tokens of a pod for the
	// consumer's API server.
	SecretTypeTokens = "federation.liqo.io/tokens"
	// SecretTypeWireGuard is the type of the Secret with the keys of the gateway.
	SecretTypeWireGuard = "federation.liqo.io/wireguard"
	// WireGuardSecret is the name of the Secret with the keys of the gateway, in the installation
	// namespace. The gateway creates it, and no other program reads it.
	WireGuardSecret = "federation-wireguard"
	// WireGuardConfigMap is the name of the ConfigMap in the installation namespace in which the
	// active gateway publishes the public key of the private key in WireGuardSecret.
	WireGuardConfigMap = "federation-gateway"
	// WireGuardPrivateKey and WireGuardPublicKey are keys in the data of WireGuardSecret, and the
	// latter is the key in the data of WireGuardConfigMap. Their values are WireGuard keys in base64,
	// the format of wg genkey. The controllers of version v0.1.0 read the public key in
	// WireGuardSecret.
	WireGuardPrivateKey = "privateKey"
	WireGuardPublicKey  = "publicKey"
	// GatewayName is the name of the gateway's Deployment, its Service and the Lease of the active
	// gateway in the installation namespace, and the value of the label app.kubernetes.io/name of
	// its pods.
	GatewayName = "federation-gateway"
	// InvitationTokenKey is the key of the token in the data of a Secret of type
	// SecretTypeInvitation.
	InvitationTokenKey = "token"
)

// Reasons that one component reports and another component reads.
const (
	// ReasonShadowVolumeClaimMissing of the condition Ready of a VirtualVolume and events on the local and the remote
	// claim means that the ShadowVolumeClaim is missing on the provider. It is created again within two minutes;
	// otherwise an event on the local claim has the cause.
	ReasonShadowVolumeClaimMissing = "ShadowVolumeClaimMissing"
	// ReasonProviderRefused of pods, ephemeral containers and the conditions of shadow objects means
	// that the API server of the provider refuses the object or its change, for example by a quota or
	// a policy. The message has the cause; the request is retried.
	ReasonProviderRefused = "ProviderRefused"
	// ReasonOffloadingBackOff of a pod on a virtual node means that the namespace is not offloaded to
	// the provider, or pods on the provider have no address for the consumer's API server; the
	// pod never ran. See docs/pods.md#status-and-events.
	ReasonOffloadingBackOff = "OffloadingBackOff"
	// ReasonOffloadingAborted of a pod on a virtual node means that the namespace was unoffloaded while the
	// pod ran: it is not ready, and Failed if it cannot be evicted. Delete the pod, or offload the namespace again.
	ReasonOffloadingAborted = "OffloadingAborted"
)
