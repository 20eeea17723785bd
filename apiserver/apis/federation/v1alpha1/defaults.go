// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Defaults of fields, in seconds.
const (
	// DefaultTokenExpirationSeconds is the default of spec.expirationSeconds of a PeeringToken.
	DefaultTokenExpirationSeconds int64 = 3600
	// DefaultDisconnectTimeoutSeconds is the default of spec.disconnectTimeoutSeconds of a
	// ForeignCluster.
	DefaultDisconnectTimeoutSeconds int32 = 300
	// DefaultEvictionTimeoutSeconds is the default of spec.evictionTimeoutSeconds of a move.
	DefaultEvictionTimeoutSeconds int32 = 300
)

// MinOrphanTTL is the least orphanTTL other than 0, and the age at which a heartbeat expires.
const MinOrphanTTL = time.Minute

func addDefaultingFuncs(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}

// SetDefaults_ForeignClusterSpec disables directions that are not set, and sets the timeout.
func SetDefaults_ForeignClusterSpec(spec *ForeignClusterSpec) {
	if spec.Outgoing == "" {
		spec.Outgoing = PeeringDisabled
	}
	if spec.Incoming == "" {
		spec.Incoming = PeeringDisabled
	}
	if spec.DisconnectTimeoutSeconds == nil {
		spec.DisconnectTimeoutSeconds = ptr.To(DefaultDisconnectTimeoutSeconds)
	}
}

// SetDefaults_PeeringTokenSpec sets the lifetime of an invitation.
func SetDefaults_PeeringTokenSpec(spec *PeeringTokenSpec) {
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = ptr.To(DefaultTokenExpirationSeconds)
	}
}

// SetDefaults_ShadowEndpointSliceSpec sets the defaults of the ports of an EndpointSlice: an empty
// name, and TCP.
func SetDefaults_ShadowEndpointSliceSpec(spec *ShadowEndpointSliceSpec) {
	for i := range spec.Ports {
		if port := &spec.Ports[i]; port.Name == nil {
			port.Name = ptr.To("")
		}
		if port := &spec.Ports[i]; port.Protocol == nil {
			port.Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}

// SetDefaults_NamespaceOffloadingSpec sets unique names of remote namespaces, and policies that
// change no running pod and delete no data.
func SetDefaults_NamespaceOffloadingSpec(spec *NamespaceOffloadingSpec) {
	if spec.NamespaceMappingStrategy == "" {
		spec.NamespaceMappingStrategy = DefaultName
	}
	if spec.PodOffloadingStrategy == "" {
		spec.PodOffloadingStrategy = LocalAndRemote
	}
	if spec.Enforcement == "" {
		spec.Enforcement = Warn
	}
	if spec.Volumes.OnUnoffload == "" {
		spec.Volumes.OnUnoffload = UnoffloadRefuse
	}
}

// SetDefaults_ShadowVolumeClaimSpec sets the policy that keeps the data.
func SetDefaults_ShadowVolumeClaimSpec(spec *ShadowVolumeClaimSpec) {
	if spec.DeletionPolicy == "" {
		spec.DeletionPolicy = VolumeDeletionRetain
	}
}

// SetDefaults_MoveSpec sets an online move with verification of what changed, or full verification
// of an offline move, and the timeout.
func SetDefaults_MoveSpec(spec *MoveSpec) {
	if spec.Strategy == "" {
		spec.Strategy = MoveOnline
	}
	if spec.Verify == "" {
		spec.Verify = VerifyChanged
		if spec.Strategy == MoveOffline {
			spec.Verify = VerifyFull
		}
	}
	if spec.EvictionTimeoutSeconds == nil {
		spec.EvictionTimeoutSeconds = ptr.To(DefaultEvictionTimeoutSeconds)
	}
}

// SetDefaults_NetworkConfigSpec sets WireGuard, the backend of versions that do not send one.
func SetDefaults_NetworkConfigSpec(spec *NetworkConfigSpec) {
	if spec.Backend == "" {
		spec.Backend = BackendWireGuard
	}
}

// SetDefaults_AddressMappingSpec sets the default pool, and protocol TCP of ports.
func SetDefaults_AddressMappingSpec(spec *AddressMappingSpec) {
	if spec.Pool == "" {
		spec.Pool = DefaultAddressPool
	}
	for i := range spec.Ports {
		if port := &spec.Ports[i]; port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
	}
}
