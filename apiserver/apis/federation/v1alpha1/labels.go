// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// These names are a contract with users' manifests: they do not change.
const (
	// LabelType tells virtual nodes from all others; its value there is
	// TypeVirtualNode.
	LabelType = "liqo.io/type"
	// TypeVirtualNode is the value of LabelType on a virtual node.
	TypeVirtualNode = "virtual-node"
	// VirtualNodePrefix begins the name of each virtual node. What a virtual kubelet
	// may do is bounded to nodes of such names.
	VirtualNodePrefix = "liqo-"
	// LabelRemoteClusterID names, on a virtual node, the cluster behind it.
	LabelRemoteClusterID = "liqo.io/remote-cluster-id"
	// LabelSchedulingEnabled is "true" on a namespace that is, or is about to
	// be, offloaded: only its pods are looked at when they are placed.
	LabelSchedulingEnabled = "liqo.io/scheduling-enabled"
	// LabelOrigin names, on a shadow copy, the id of the cluster it comes from. On
	// the AddressMapping of a pod it is that of the cluster that the pod runs on,
	// and on that of the API server, the cluster's own.
	LabelOrigin = "offloading.liqo.io/origin"
	// LabelDestination names, on a shadow copy, the id of the cluster it was
	// sent to.
	LabelDestination = "offloading.liqo.io/destination"
	// LabelVirtualNode names, on a shadow pod and its pod, the virtual node that
	// the local pod is bound to: only that node's virtual kubelet touches it.
	LabelVirtualNode = "offloading.liqo.io/virtual-node"
	// LabelExported is "true" on the copy of a Service that a ServiceExport exports
	// from its home: a provider then makes a ServiceImport beside it.
	LabelExported = "offloading.liqo.io/exported"
	// AnnotationSkipReflection keeps an object out of the twin namespaces of its
	// own, whatever its value is, unless that is "false".
	AnnotationSkipReflection = "liqo.io/skip-reflection"
	// AnnotationAllowReflection sends an object of a kind whose policy is
	// AllowList to the twin namespaces of its own, whatever its value is, unless
	// that is "false".
	AnnotationAllowReflection = "liqo.io/allow-reflection"
	// AnnotationForceRemoteNodePort, on a Service, asks a provider for the same
	// node ports, whatever its value is, unless that is "false".
	AnnotationForceRemoteNodePort = "liqo.io/force-remote-node-port"
	// AnnotationRemoteStorageClass, on a PersistentVolumeClaim, is the storage class of
	// the provider that the claim uses there. Without it the claim uses the class of the
	// same name as its parameter localStorageClassName, otherwise the provider's default.
	AnnotationRemoteStorageClass = "liqo.io/remote-storage-class"
	// StorageProvisioner is the provisioner of the virtual storage class, and the name
	// of the CSI driver of volumes whose data a provider stores. No node runs such a
	// driver, so no kubelet of this cluster mounts them.
	StorageProvisioner = "storage.liqo.io"
	// ParameterLocalStorageClass is the parameter of a virtual storage class that names
	// the class of volumes in this cluster; without it that is the default class.
	ParameterLocalStorageClass = "localStorageClassName"
	// SchedulingGateMoving holds pods back that mount a claim whose data is being moved.
	SchedulingGateMoving = "storage.liqo.io/moving"
	// AnnotationAPIAccess, on a pod, keeps its tokens home with any value but
	// "Home".
	AnnotationAPIAccess = "liqo.io/api-access"
	// TaintVirtualNode keeps pods off virtual nodes that were not offloaded.
	// Its value is "true" and its effect NoExecute.
	TaintVirtualNode = "virtual-node.liqo.io/not-allowed"
)

// These names are ours, on objects that only this system makes.
const (
	// LabelForeignCluster names the ForeignCluster that a namespace or an
	// object inside it belongs to.
	LabelForeignCluster = "federation.liqo.io/foreign-cluster"
	// LabelRole tells what a namespace of ours is for: RoleTenant, RolePeer
	// or RoleRemoteNamespace.
	LabelRole = "federation.liqo.io/role"
	// RoleTenant marks the namespace that a consumer may see on a provider.
	RoleTenant = "tenant"
	// RolePeer marks the namespace where a consumer keeps what it knows of a
	// provider.
	RolePeer = "peer"
	// RoleRemoteNamespace marks a namespace that mirrors one of a consumer's.
	RoleRemoteNamespace = "twin"
	// LabelManagedBy is set on the virtual kubelets' workloads and on what the
	// controllers replicate.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "federation.liqo.io"
	// AnnotationOriginNamespace names, on a twin namespace and on shadow
	// copies, the namespace they mirror. On the AddressMapping of an endpoint that
	// is no pod it is that of its Services.
	AnnotationOriginNamespace = "offloading.liqo.io/origin-namespace"
	// AnnotationOriginUID carries, on a shadow pod and its pod, the UID of the
	// pod it stands for: there are never two pods for one UID. On a copy of a
	// kind that was configured it is that of the object it was made from.
	AnnotationOriginUID = "offloading.liqo.io/origin-uid"
	// AnnotationOriginPod names, on the AddressMapping of a pod, the namespace and
	// the name of that pod.
	AnnotationOriginPod = "offloading.liqo.io/origin-pod"
	// AnnotationCordoned is on a virtual node that was cordoned since its
	// ForeignCluster is, and not by hand. On an offer it keeps what was in it
	// until its consumer was cordoned.
	AnnotationCordoned = "federation.liqo.io/cordoned"
	// AnnotationIngressClasses and AnnotationLoadBalancerClasses list, on a twin,
	// the classes that the consumer's objects may name in it, if its ForeignCluster
	// says: as in shared,shared-internal. The policy federation-peers reads them.
	AnnotationIngressClasses      = "federation.liqo.io/ingress-classes"
	AnnotationLoadBalancerClasses = "federation.liqo.io/load-balancer-classes"
	// AnnotationReflectedKeys names, on a copy, the labels and annotations that
	// came with it: whatever else is there is the provider's.
	AnnotationReflectedKeys = "offloading.liqo.io/reflected-keys"
	// AnnotationAccounts lists, on an offloaded namespace, the service accounts
	// whose pods a virtual kubelet has, and so may have tokens of, as
	// naming.AccountOnNode writes them, with a space between two.
	AnnotationAccounts = "offloading.liqo.io/accounts"
	// AnnotationTokenSecret names, on a shadow pod and its pod, the Secret beside
	// it that its volumes take the tokens of home from.
	AnnotationTokenSecret = "offloading.liqo.io/token-secret"
	// AnnotationRenewAfter says, on such a Secret, when its tokens are replaced,
	// in RFC 3339.
	AnnotationRenewAfter = "offloading.liqo.io/renew-after"
	// AnnotationReflectedHash is, on a copy of a kind whose fields are not known
	// here, the hash of what it was copied from.
	AnnotationReflectedHash = "offloading.liqo.io/reflected-hash"
	// Finalizer holds an object back until its other side is gone or its
	// deadline has passed.
	Finalizer = "federation.liqo.io/finalizer"
	// PeerGroup is the one organisation in the certificates of peers.
	PeerGroup = "liqo:peers"
	// SecretTypeInvitation is the type of the Secrets that hold a provider's
	// invitation; a token is read from no Secret of another type.
	SecretTypeInvitation = "federation.liqo.io/invitation"
	// SecretTypeIdentity is the type of the Secrets that hold this cluster's
	// identity at a provider.
	SecretTypeIdentity = "federation.liqo.io/identity"
	// SecretTypeTokens is the type of the Secrets with which the tokens of a pod
	// follow it to a provider.
	SecretTypeTokens = "federation.liqo.io/tokens"
	// SecretTypeWireGuard is the type of the Secret with the keys of this
	// cluster's gateway.
	SecretTypeWireGuard = "federation.liqo.io/wireguard"
	// WireGuardSecret is the name of that Secret, in the installation namespace.
	WireGuardSecret = "federation-wireguard"
	// WireGuardPrivateKey is the key of the private key in it, and
	// WireGuardPublicKey that of the public one, both in base64 as wg prints
	// them. Only the gateway reads the private one.
	WireGuardPrivateKey = "privateKey"
	WireGuardPublicKey  = "publicKey"
	// GatewayName is what the gateway of the tunnels is called, in the
	// installation namespace: its Deployment, the label app.kubernetes.io/name of
	// its pods, the Lease of the active one, and the Service that leads there.
	GatewayName = "federation-gateway"
	// InvitationTokenKey is the key of the token in an invitation's Secret.
	InvitationTokenKey = "token"
)

// Reasons of pods on a virtual node that the provider does not run.
const (
	// ReasonShadowVolumeClaimMissing is the reason of the condition Ready of a
	// VirtualVolume, and of an event on its claim, while the provider has lost the
	// ShadowVolumeClaim, and of an event on the provider's claim.
	ReasonShadowVolumeClaimMissing = "ShadowVolumeClaimMissing"
	// ReasonProviderRefused is the reason of a pod, or of a waiting ephemeral
	// container, that the provider refuses, and of the condition PodCreated of
	// its ShadowPod.
	ReasonProviderRefused = "ProviderRefused"
	// ReasonOffloadingBackOff is the reason of a Pending pod that never ran and
	// whose namespace is not offloaded.
	ReasonOffloadingBackOff = "OffloadingBackOff"
	// ReasonOffloadingAborted is the reason of a pod that ran before its namespace
	// was offloaded no more: it is not ready, and Failed if nobody evicts it.
	ReasonOffloadingAborted = "OffloadingAborted"
)
