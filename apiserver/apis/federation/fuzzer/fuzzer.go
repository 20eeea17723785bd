// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fuzzer fills objects of the federation API with random values for round-trip tests.
// Defaulting does not change these values.
package fuzzer

import (
	corev1 "k8s.io/api/core/v1"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Funcs returns fuzz functions for the types that have default values. They set each field with a
// default to a value that is not empty.
func Funcs(runtimeserializer.CodecFactory) []any {
	return []any{
		func(spec *federation.ForeignClusterSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.Outgoing = intent(c)
			spec.Incoming = intent(c)
			if spec.DisconnectTimeoutSeconds == nil {
				spec.DisconnectTimeoutSeconds = ptr.To(c.Int31())
			}
		},
		func(spec *federation.PeeringTokenSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.ExpirationSeconds == nil {
				spec.ExpirationSeconds = ptr.To(c.Int63())
			}
		},
		func(spec *federation.NamespaceOffloadingSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.NamespaceMappingStrategy = one(c, federation.DefaultName, federation.EnforceSameName,
				federation.SelectedName)
			spec.PodOffloadingStrategy = one(c, federation.LocalAndRemote, federation.Local, federation.Remote)
			spec.Enforcement = one(c, federation.Warn, federation.Evict)
			spec.Volumes.OnUnoffload = one(c, federation.UnoffloadRefuse, federation.UnoffloadMove,
				federation.UnoffloadRetain, federation.UnoffloadDelete)
		},
		func(spec *federation.ShadowVolumeClaimSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.DeletionPolicy = one(c, federation.VolumeDeletionRetain, federation.VolumeDeletionDelete)
		},
		func(spec *federation.MoveSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.Strategy = one(c, federation.MoveOnline, federation.MoveOffline)
			spec.Verify = one(c, federation.VerifyChanged, federation.VerifyFull)
			if spec.EvictionTimeoutSeconds == nil {
				spec.EvictionTimeoutSeconds = ptr.To(c.Int31())
			}
		},
		func(spec *federation.AddressMappingSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Pool == "" {
				spec.Pool = v1alpha1.DefaultAddressPool
			}
			for i := range spec.Ports {
				spec.Ports[i].Protocol = one(c, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
			}
		},
		func(spec *federation.NetworkConfigSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Backend == "" {
				spec.Backend = federation.NetworkBackend(v1alpha1.BackendWireGuard)
			}
		},
		func(spec *federation.ShadowPodSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			defaulted := &v1alpha1.ShadowPod{Spec: v1alpha1.ShadowPodSpec{Pod: spec.Pod}}
			v1alpha1.SetObjectDefaults_ShadowPod(defaulted)
			spec.Pod = defaulted.Spec.Pod
		},
		func(spec *federation.ShadowEndpointSliceSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			defaulted := &v1alpha1.ShadowEndpointSliceSpec{Ports: spec.Ports}
			v1alpha1.SetDefaults_ShadowEndpointSliceSpec(defaulted)
		},
	}
}

func intent(c randfill.Continue) federation.PeeringIntent {
	return one(c, federation.PeeringEnabled, federation.PeeringDisabled)
}

func one[T any](c randfill.Continue, values ...T) T {
	return values[c.Rand.Intn(len(values))]
}
