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
	// DefaultEvictionTimeoutSeconds is the default of spec.evictionTimeoutSeconds of a Move.
	DefaultEvictionTimeoutSeconds int32 = 300
)

// MinOrphanTTL is the minimum of spec.incomingPolicy.orphanTTL of a ForeignCluster, apart from 0.
// It equals the time after which a heartbeat that was not renewed is expired.
const MinOrphanTTL = time.Minute

func addDefaultingFuncs(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}

// SetDefaults_ForeignClusterSpec sets outgoing and incoming to Disabled, and
// disconnectTimeoutSeconds to 300, each only if it is empty.
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

// SetDefaults_PeeringTokenSpec sets expirationSeconds to 3600.
func SetDefaults_PeeringTokenSpec(spec *PeeringTokenSpec) {
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = ptr.To(DefaultTokenExpirationSeconds)
	}
}

// SetDefaults_ShadowEndpointSliceSpec sets the same defaults of ports as an EndpointSlice has: an
// empty name and protocol TCP.
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

// SetDefaults_NamespaceOffloadingSpec sets namespaceMappingStrategy to DefaultName,
// podOffloadingStrategy to LocalAndRemote, enforcement to Warn, and volumes.onUnoffload to Refuse,
// each only if it is empty.
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

// SetDefaults_ShadowVolumeClaimSpec sets deletionPolicy Retain.
func SetDefaults_ShadowVolumeClaimSpec(spec *ShadowVolumeClaimSpec) {
	if spec.DeletionPolicy == "" {
		spec.DeletionPolicy = VolumeDeletionRetain
	}
}

// SetDefaults_MoveSpec sets strategy Online, verification Changed for an online and Full for an
// offline move, and an eviction timeout of 300 seconds.
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

// SetDefaults_NetworkConfigSpec sets backend WireGuard, which peers of versions without this field
// use.
func SetDefaults_NetworkConfigSpec(spec *NetworkConfigSpec) {
	if spec.Backend == "" {
		spec.Backend = BackendWireGuard
	}
}

// SetDefaults_AddressMappingSpec sets the pool default, and protocol TCP for ports without a
// protocol.
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
