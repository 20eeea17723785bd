// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IncomingPolicy is the policy of a provider for one consumer.
type IncomingPolicy struct {
	PeeringAnswer
	SharePercent        *int32
	Limits              corev1.ResourceList
	NodeSelector        map[string]string
	Shape               OfferShape
	Labels              map[string]string
	StorageClasses      []string
	IngressClasses      []string
	LoadBalancerClasses []string
	OrphanTTL           *metav1.Duration
	ExternalVolumes     ExternalVolumes
	RemoteNamespaces    []string
	Pods                PodPolicy
	Objects             corev1.ResourceList
	ExternalNames       []string
	Network             NetworkAccess
	MaxRemoteNamespaces *int32
	RefusedPods         RefusedPodsPolicy
	MaxObjectBytes      *int64
}

// RefusedPodsPolicy determines what happens to running pods of a consumer that the PodPolicy for
// them no longer permits, because the PodPolicy or spec.trust of the ForeignCluster changed.
type RefusedPodsPolicy string

// Values of RefusedPodsPolicy, documented in v1alpha1.
const (
	RefusedPodsKeep  RefusedPodsPolicy = "Keep"
	RefusedPodsEvict RefusedPodsPolicy = "Evict"
)

// NetworkAccess selects the permitted connections to and from pods of a consumer.
type NetworkAccess string

// Values of NetworkAccess, documented in v1alpha1.
const (
	NetworkIsolated NetworkAccess = "Isolated"
	NetworkOpen     NetworkAccess = "Open"
)

// PodPolicy limits what pods of a consumer may set.
type PodPolicy struct {
	Tolerations           []string
	RuntimeClasses        []string
	MetadataKeys          []string
	MaxGracePeriodSeconds *int64
	Limits                PodLimitsPolicy
}

// PodLimitsPolicy determines whether pods may use more than they request.
type PodLimitsPolicy string

// Values of PodLimitsPolicy, documented in v1alpha1.
const (
	PodLimitsAny      PodLimitsPolicy = "Any"
	PodLimitsRequired PodLimitsPolicy = "Required"
)
