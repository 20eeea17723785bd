// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import "liqo.io/federation/apiserver/identity"

// Reasons of the conditions of a ForeignCluster, and of the events on it.
const (
	ReasonDisabled             = "Disabled"
	ReasonDisconnecting        = "Disconnecting"
	ReasonDisconnectTimedOut   = "DisconnectTimedOut"
	ReasonNamespaceTaken       = "NamespaceTaken"
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonInvitationMissing    = "InvitationMissing"
	ReasonInvitationInvalid    = "InvitationInvalid"
	ReasonInvitationExpired    = "InvitationExpired"
	ReasonInvitationRejected   = "InvitationRejected"
	ReasonIdentityRefused      = "IdentityRefused"
	ReasonIdentityPending      = "IdentityPending"
	ReasonIdentityInvalid      = "IdentityInvalid"
	ReasonNoControlProxy       = "NoControlProxy"
	ReasonIdentityExpired      = "IdentityExpired"
	ReasonIdentityIssued       = "IdentityIssued"
	ReasonIdentityRevoked      = identity.ReasonIdentityRevoked
	ReasonAwaitingDecision     = "AwaitingDecision"
	ReasonOfferRefused         = "OfferRefused"
	ReasonRenewalFailing       = "RenewalFailing"
	ReasonVersionsDiffer       = "VersionsDiffer"
	ReasonClusterIDMismatch    = "ClusterIDMismatch"
	ReasonOwnCluster           = "OwnCluster"
	ReasonProviderUnreachable  = "ProviderUnreachable"
	ReasonProviderFailing      = "ProviderFailing"
	ReasonAwaitingConsumer     = "AwaitingConsumer"
	ReasonAwaitingProvider     = "AwaitingProvider"
	ReasonRequestRefused       = "RequestRefused"
	ReasonOfferWithdrawn       = "OfferWithdrawn"
	ReasonOfferAccepted        = "OfferAccepted"
	ReasonVirtualNodeNotReady  = "VirtualNodeNotReady"
	ReasonReady                = "Ready"
	ReasonVolumesRemain        = "VolumesRemain"
	ReasonVolumesMoving        = "VolumesMoving"
	ReasonVolumesReleasing     = "VolumesReleasing"
	ReasonVolumesReleased      = "VolumesReleased"
	ReasonVolumesLeftBehind    = "VolumesLeftBehind"
)
