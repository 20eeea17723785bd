// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import "liqo.io/federation/apiserver/identity"

// Reasons of the conditions Authenticated, OutgoingPeering, IncomingPeering and Ready of a ForeignCluster.
const (
	// ReasonDisabled means that the direction is disabled in the spec.
	ReasonDisabled = "Disabled"
	// ReasonDisconnecting means that the direction is being removed.
	ReasonDisconnecting = "Disconnecting"
	// ReasonReady means that every enabled direction of the peering is established.
	ReasonReady = "Ready"
	// ReasonNamespaceTaken means that a namespace with the name of the peer or tenant namespace exists that
	// does not belong to this peering. Delete that namespace, or create the ForeignCluster with another name.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonNamespaceTerminating means that the namespace of an earlier peering is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// Reasons of the condition TrustSelected of a ForeignCluster.
const (
	// ReasonTrustNotSelected means that version v0.1.0 created the ForeignCluster, so that the peer may do what trust
	// SameOwner permits. Set spec.trust.
	ReasonTrustNotSelected = "TrustNotSelected"
)

// Reasons of the condition Authenticated of a ForeignCluster.
const (
	// ReasonInvitationMissing means that there is no invitation. POST one to the verb peer.
	ReasonInvitationMissing = "InvitationMissing"
	// ReasonInvitationInvalid means that the Secret in spec.invitationSecretName has no usable invitation. POST
	// another one to the verb peer.
	ReasonInvitationInvalid = "InvitationInvalid"
	// ReasonInvitationExpired means that the invitation expired. Request a new one.
	ReasonInvitationExpired = "InvitationExpired"
	// ReasonInvitationRejected means that the invitation was used or withdrawn. Request a new one.
	ReasonInvitationRejected = "InvitationRejected"
	// ReasonIdentityRefused means that the provider refuses to issue an identity. See the reason of its
	// IdentityRequest.
	ReasonIdentityRefused = "IdentityRefused"
	// ReasonIdentityPending means that the provider is issuing the identity, or granting its rights.
	ReasonIdentityPending = "IdentityPending"
	// ReasonIdentityInvalid means that the identity cannot be used. Peer again with a new invitation.
	ReasonIdentityInvalid = "IdentityInvalid"
	// ReasonIdentityExpired means that the identity expired before it was renewed. Peer again with a new invitation:
	// docs/peerings.md#identities.
	ReasonIdentityExpired = "IdentityExpired"
	// ReasonIdentityIssued means that the provider has issued the identity.
	ReasonIdentityIssued  = "IdentityIssued"
	ReasonIdentityRevoked = identity.ReasonIdentityRevoked
	// ReasonRenewalFailing means that the renewal of the identity fails or is not signed; the message has the
	// cause. The renewal is retried until the identity expires.
	ReasonRenewalFailing = "RenewalFailing"
	// ReasonNoControlProxy means that spec.mode is InBand, and the local cluster has no gateway through which
	// it could reach the provider. Set network.enabled.
	ReasonNoControlProxy = "NoControlProxy"
	// ReasonClusterIDMismatch means that another cluster responds at spec.server. Correct spec.server, or delete the
	// ForeignCluster and peer with that cluster.
	ReasonClusterIDMismatch = "ClusterIDMismatch"
	// ReasonOwnCluster means that the invitation is of the local cluster. Peer with the invitation of another cluster.
	ReasonOwnCluster = "OwnCluster"
	// ReasonProviderUnreachable means that there is no connection to the provider. Check spec.server and the
	// network; the connection is retried.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonProviderFailing means that the provider returns errors. See the message; failed requests are
	// retried.
	ReasonProviderFailing = "ProviderFailing"
)

// Reasons of the conditions OutgoingPeering, IncomingPeering and Ready of a ForeignCluster.
const (
	// ReasonAwaitingDecision means that the local administrator has to accept the offer or the request. See
	// docs/peerings.md#decide-who-is-a-peer.
	ReasonAwaitingDecision = "AwaitingDecision"
	// ReasonOfferRefused means that the consumer's administrator refused the offer. To accept it, set
	// spec.outgoingPolicy.decision of the provider's ForeignCluster to Accept.
	ReasonOfferRefused = "OfferRefused"
	// ReasonVersionsDiffer means that the clusters have no API version in common. Upgrade the older cluster:
	// docs/peerings.md#versions.
	ReasonVersionsDiffer = "VersionsDiffer"
	// ReasonAwaitingConsumer means that the consumer has not used its invitation, or has not accepted the offer. Ask its
	// administrator.
	ReasonAwaitingConsumer = "AwaitingConsumer"
	// ReasonAwaitingProvider means that the provider has not made an offer, or its administrator has to decide.
	ReasonAwaitingProvider = "AwaitingProvider"
	// ReasonRequestRefused means that the administrator of the provider refused the request. To accept it, set
	// spec.incomingPolicy.decision of the consumer's ForeignCluster to Accept.
	ReasonRequestRefused = "RequestRefused"
	// ReasonOfferWithdrawn means that the provider withdrew the offer. Set spec.outgoing to Disabled to clean up.
	ReasonOfferWithdrawn = "OfferWithdrawn"
	// ReasonOfferAccepted means that the consumer accepted the offer.
	ReasonOfferAccepted = "OfferAccepted"
	// ReasonVirtualNodeNotReady means that a virtual node is starting, or its provider does not respond. See the
	// conditions of the VirtualNode.
	ReasonVirtualNodeNotReady = "VirtualNodeNotReady"
)

// Reasons of the condition VolumesReleased of a ForeignCluster.
const (
	// ReasonVolumesRemain means that the peering is not removed, because the provider stores data of namespaces whose
	// spec.volumes.onUnoffload is Refuse, the default. Move or delete the claims that the message lists.
	ReasonVolumesRemain = "VolumesRemain"
	// ReasonVolumesMoving means that the data that the provider stores is being moved to the local cluster.
	ReasonVolumesMoving = "VolumesMoving"
	// ReasonVolumesReleasing means that data on the provider is deleted once the pods that use it have ended.
	ReasonVolumesReleasing = "VolumesReleasing"
	// ReasonVolumesReleased means that the provider stores no data of volumes of the local cluster any more.
	ReasonVolumesReleased = "VolumesReleased"
	// ReasonVolumesLeftBehind means that data of volumes stays on the provider, and is available again once the
	// clusters are peered again.
	ReasonVolumesLeftBehind = "VolumesLeftBehind"
)

// ReasonDisconnectTimedOut of an event on a ForeignCluster means that the peering ended after
// spec.disconnectTimeoutSeconds, before the other cluster had cleaned up. See docs/peerings.md#restore-of-a-cluster.
const ReasonDisconnectTimedOut = "DisconnectTimedOut"
