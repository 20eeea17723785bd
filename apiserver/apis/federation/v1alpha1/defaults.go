// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// What an object means when it does not say.
const (
	// DefaultTokenExpirationSeconds is how long an invitation is good for.
	DefaultTokenExpirationSeconds int64 = 3600
	// DefaultDisconnectTimeoutSeconds bounds how long unpeering waits for the
	// other side.
	DefaultDisconnectTimeoutSeconds int32 = 300
	// DefaultEvictionTimeoutSeconds bounds how long a move waits for evictions.
	DefaultEvictionTimeoutSeconds int32 = 300
)

// MinOrphanTTL is the shortest time of silence after which the lending may
// end, and how long a consumer is silent before that is said at all.
const MinOrphanTTL = time.Minute

func addDefaultingFuncs(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}

// SetDefaults_ForeignClusterSpec wants nothing that was not asked for.
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

// SetDefaults_PeeringTokenSpec lets an invitation live for an hour.
func SetDefaults_PeeringTokenSpec(spec *PeeringTokenSpec) {
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = ptr.To(DefaultTokenExpirationSeconds)
	}
}

// SetDefaults_ShadowEndpointSliceSpec gives ports what those of an
// EndpointSlice have: an empty name, and TCP.
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

// SetDefaults_NamespaceOffloadingSpec gives twins unique names, lets pods run
// on both sides, and leaves those that run where they are.
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

// SetDefaults_ShadowVolumeClaimSpec keeps the data when the object is deleted.
func SetDefaults_ShadowVolumeClaimSpec(spec *ShadowVolumeClaimSpec) {
	if spec.DeletionPolicy == "" {
		spec.DeletionPolicy = VolumeDeletionRetain
	}
}

// SetDefaults_MoveSpec moves online and verifies what changed; a move that copies
// once verifies everything.
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

// SetDefaults_NetworkConfigSpec has a cluster of a version that says nothing of a
// backend make tunnels with the one that it has.
func SetDefaults_NetworkConfigSpec(spec *NetworkConfigSpec) {
	if spec.Backend == "" {
		spec.Backend = BackendWireGuard
	}
}

// SetDefaults_AddressMappingSpec takes from the pool that everybody means, and
// gives ports the protocol that those of a Service have.
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
