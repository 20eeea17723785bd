// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Names in manifests of users, and on objects that users select by. They are part of the API, and
// do not change.
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
	// LabelSchedulingEnabled, on a namespace, is "true" while it is offloaded or about to be. The
	// placement of pods is reviewed in these namespaces only.
	LabelSchedulingEnabled = "liqo.io/scheduling-enabled"
	// LabelOrigin, on a reflected object, is the ID of the cluster that it was reflected from. On
	// the AddressMapping of a pod it is the ID of the cluster that the pod runs on, and on one of
	// the API server or of another endpoint, the ID of the local cluster.
	LabelOrigin = "offloading.liqo.io/origin"
	// LabelDestination, on a reflected object, is the ID of the cluster that it was reflected to.
	LabelDestination = "offloading.liqo.io/destination"
	// LabelVirtualNode, on a shadow pod and its remote pod, is the name of the virtual node that
	// the local pod is bound to. Only the virtual kubelet of that node changes the shadow pod.
	LabelVirtualNode = "offloading.liqo.io/virtual-node"
	// LabelExported, on a reflected Service, is "true" if a ServiceExport of the consumer exports
	// it. The provider creates a ServiceImport for it.
	LabelExported = "offloading.liqo.io/exported"
	// AnnotationSkipReflection, on an object, excludes it from reflection, with any value except
	// "false".
	AnnotationSkipReflection = "liqo.io/skip-reflection"
	// AnnotationAllowReflection, on an object of a kind with reflection policy AllowList, includes
	// it in reflection, with any value except "false".
	AnnotationAllowReflection = "liqo.io/allow-reflection"
	// AnnotationForceRemoteNodePort, on a Service, requests the same node ports on providers, with
	// any value except "false".
	AnnotationForceRemoteNodePort = "liqo.io/force-remote-node-port"
	// AnnotationRemoteStorageClass, on a PersistentVolumeClaim, is the StorageClass that stores the
	// data on a provider. Without it, that is the class of the same name as the parameter
	// localStorageClassName, or the default of the provider.
	AnnotationRemoteStorageClass = "liqo.io/remote-storage-class"
	// StorageProvisioner is the provisioner of the virtual StorageClass, and the CSI driver of
	// volumes whose data a provider stores. No node has this driver, so no local kubelet mounts
	// them.
	StorageProvisioner = "storage.liqo.io"
	// ParameterLocalStorageClass is the parameter of a virtual StorageClass with the class of
	// volumes in the local cluster. Without it, that is the default class.
	ParameterLocalStorageClass = "localStorageClassName"
	// SchedulingGateMoving is the scheduling gate of pods that mount a claim whose data is being
	// moved.
	SchedulingGateMoving = "storage.liqo.io/moving"
	// AnnotationAPIAccess, on a pod, disables access from a provider to the consumer's API server,
	// with any value except "Consumer".
	AnnotationAPIAccess = "liqo.io/api-access"
	// TaintVirtualNode is the taint of virtual nodes, with value "true" and effect NoExecute. Only
	// pods of offloaded namespaces tolerate it.
	TaintVirtualNode = "virtual-node.liqo.io/not-allowed"
)

// Names on objects that only the components of the federation create.
const (
	// LabelForeignCluster, on a namespace or an object in it, is the name of its ForeignCluster.
	LabelForeignCluster = "federation.liqo.io/foreign-cluster"
	// LabelRole, on a namespace, is its role: RoleTenant, RolePeer or RoleRemoteNamespace.
	LabelRole = "federation.liqo.io/role"
	// RoleTenant is the role of a tenant namespace, which a consumer has access to.
	RoleTenant = "tenant"
	// RolePeer is the role of a peer namespace, with the objects and Secrets of a consumer for a
	// provider.
	RolePeer = "peer"
	// RoleRemoteNamespace is the role of a remote namespace.
	RoleRemoteNamespace = "twin"
	// LabelManagedBy identifies objects that the controllers manage, with the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "federation.liqo.io"
	// AnnotationOriginNamespace, on a remote namespace and on reflected objects, is the namespace
	// on the consumer. On the AddressMapping of a non-pod endpoint it is the namespace of its
	// Services.
	AnnotationOriginNamespace = "offloading.liqo.io/origin-namespace"
	// AnnotationOriginUID, on a shadow pod and its remote pod, is the UID of the local pod: there
	// are never two remote pods of one UID. On a reflected object of an additional kind it is the
	// UID of the local object.
	AnnotationOriginUID = "offloading.liqo.io/origin-uid"
	// AnnotationOriginPod, on the AddressMapping of a pod, is the namespace and name of the pod.
	AnnotationOriginPod = "offloading.liqo.io/origin-pod"
	// AnnotationCordoned, on a virtual node, marks a node that was cordoned because of its
	// ForeignCluster, and not by hand. On an offer it has the contents of the offer before its
	// consumer was cordoned, as JSON.
	AnnotationCordoned = "federation.liqo.io/cordoned"
	// AnnotationIngressClasses and AnnotationLoadBalancerClasses, on a remote namespace, are the
	// classes that objects of the consumer may use, for example shared,shared-internal. The policy
	// federation-peers reads them. Without an annotation all classes are permitted.
	AnnotationIngressClasses      = "federation.liqo.io/ingress-classes"
	AnnotationLoadBalancerClasses = "federation.liqo.io/load-balancer-classes"
	// AnnotationReflectedKeys, on a reflected object, lists the labels and annotations that were
	// reflected. All others belong to the provider.
	AnnotationReflectedKeys = "offloading.liqo.io/reflected-keys"
	// AnnotationAccounts, on an offloaded namespace, lists the ServiceAccounts of pods on virtual
	// nodes, in the form of naming.AccountOnNode and separated by spaces. Virtual kubelets may
	// request tokens of these only.
	AnnotationAccounts = "offloading.liqo.io/accounts"
	// AnnotationTokenSecret, on a shadow pod and its remote pod, is the name of the Secret with its
	// tokens for the consumer's API server, in the same namespace.
	AnnotationTokenSecret = "offloading.liqo.io/token-secret"
	// AnnotationRenewAfter, on a Secret of type SecretTypeTokens, is the time from which its tokens
	// are renewed, in RFC 3339.
	AnnotationRenewAfter = "offloading.liqo.io/renew-after"
	// AnnotationReflectedHash, on a reflected object of an additional kind, is the hash of the
	// local object.
	AnnotationReflectedHash = "offloading.liqo.io/reflected-hash"
	// Finalizer delays the deletion of an object until its counterpart in the other cluster is
	// gone, or a deadline has passed.
	Finalizer = "federation.liqo.io/finalizer"
	// PeerGroup is the only organization in the certificates of peers, and their group.
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
	// WireGuardSecret is the name of that Secret in the installation namespace.
	WireGuardSecret = "federation-wireguard"
	// WireGuardPrivateKey and WireGuardPublicKey are its keys. Both values are in base64, as wg
	// prints them. Only the gateway reads the private key.
	WireGuardPrivateKey = "privateKey"
	WireGuardPublicKey  = "publicKey"
	// GatewayName is the name of the gateway in the installation namespace: of its Deployment, its
	// Service, the Lease of the active gateway, and the label app.kubernetes.io/name of its pods.
	GatewayName = "federation-gateway"
	// InvitationTokenKey is the key of the token in a Secret of type SecretTypeInvitation.
	InvitationTokenKey = "token"
)

// Reasons that several components report or read.
const (
	// ReasonShadowVolumeClaimMissing is the reason of the condition Ready of a VirtualVolume whose
	// ShadowVolumeClaim is missing on the provider, and of events on both claims.
	ReasonShadowVolumeClaimMissing = "ShadowVolumeClaimMissing"
	// ReasonProviderRefused is the reason of a pod or an ephemeral container that the provider
	// refuses, and of conditions of the objects on the provider.
	ReasonProviderRefused = "ProviderRefused"
	// ReasonOffloadingBackOff is the reason of a pod that never ran and whose namespace is not
	// offloaded to the provider.
	ReasonOffloadingBackOff = "OffloadingBackOff"
	// ReasonOffloadingAborted is the reason of a pod that ran before its namespace was unoffloaded:
	// it is not ready, and Failed if it cannot be evicted.
	ReasonOffloadingAborted = "OffloadingAborted"
)
