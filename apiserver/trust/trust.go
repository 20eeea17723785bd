// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust has the defaults that the trust in a peer selects, and the rules that depend on it: names of remote
// namespaces, and what pods of a consumer may set.
package trust

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/pattern"
)

// DefaultMaxGracePeriodSeconds is the maximum termination grace period of pods of a consumer with trust Tenant, one
// hour. Managed clusters drain nodes within about this time.
const DefaultMaxGracePeriodSeconds = 3600

// Strictest returns limits that permit at most what the limits of any consumer permit.
func Strictest() *v1alpha1.PodPolicy {
	return &v1alpha1.PodPolicy{
		MaxGracePeriodSeconds: ptr.To[int64](corev1.DefaultTerminationGracePeriodSeconds),
		Limits:                v1alpha1.PodLimitsRequired,
	}
}

// Of returns the trust in a peer. A ForeignCluster of v0.1.0 has none, which means SameOwner.
func Of(fc *v1alpha1.ForeignCluster) v1alpha1.PeeringTrust {
	return cmp.Or(fc.Spec.Trust, v1alpha1.TrustSameOwner)
}

// RefuseName returns an error if a consumer must not select a name for a remote namespace. installation are the
// patterns of the installation, as in Names. A name that is itself one of the patterns that Names returns is permitted.
// Any other name must match one of them or end with the short ID of the consumer, as names of the mapping DefaultName
// do, and must not be a domain. A name with a short ID can be a domain, because a consumer can search for a cluster ID
// with a certain short ID.
func RefuseName(fc *v1alpha1.ForeignCluster, installation []string, name string) error {
	names := Names(fc, installation)
	generated := strings.HasSuffix(name, "-"+naming.ShortID(fc.Spec.ClusterID))
	switch {
	case slices.Contains(names, name):
		return nil
	case !generated && !pattern.MatchesAny(names, name):
		return fmt.Errorf("the provider does not permit the name %s: use the mapping DefaultName, or have the provider's "+
			"administrator add the name to spec.incomingPolicy.remoteNamespaces of ForeignCluster %s", name, fc.Name)
	}
	return naming.RefuseDomain(name)
}

// Names returns the patterns of the names that a consumer may select for its remote namespaces: those in
// spec.incomingPolicy.remoteNamespaces of its ForeignCluster or, if it has none, those of the installation. If both are
// empty, trust SameOwner permits any name, and trust Tenant none.
func Names(fc *v1alpha1.ForeignCluster, installation []string) []string {
	return patterns(fc, fc.Spec.IncomingPolicy.RemoteNamespaces, installation)
}

// defaultMaxRemoteNamespaces is the maximum number of remote namespaces of a consumer with trust Tenant.
const defaultMaxRemoteNamespaces = 20

// MaxRemoteNamespaces returns the maximum number of remote namespaces of a consumer; 0 means that the number is not
// limited. installation is the value policy.maxRemoteNamespaces of the chart; 0 means that the value is empty.
func MaxRemoteNamespaces(fc *v1alpha1.ForeignCluster, installation int32) int32 {
	var ofTrust int32
	if Of(fc) == v1alpha1.TrustTenant {
		ofTrust = defaultMaxRemoteNamespaces
	}
	return cmp.Or(ptr.Deref(fc.Spec.IncomingPolicy.MaxRemoteNamespaces, 0), installation, ofTrust)
}

// ExternalNames returns the patterns of the DNS names that Services of type ExternalName of a consumer may have in
// spec.externalName: those in spec.incomingPolicy.externalNames of its ForeignCluster or, if it has none, those of the
// installation. If both are empty, trust SameOwner permits any name, and trust Tenant none.
func ExternalNames(fc *v1alpha1.ForeignCluster, installation []string) []string {
	return patterns(fc, fc.Spec.IncomingPolicy.ExternalNames, installation)
}

// Network returns what pods of a consumer reach: spec.incomingPolicy.network of its ForeignCluster or, if it is empty,
// the value of the installation. If both are empty, trust Tenant isolates the pods, and trust SameOwner does not.
func Network(fc *v1alpha1.ForeignCluster, installation v1alpha1.NetworkAccess) v1alpha1.NetworkAccess {
	ofTrust := v1alpha1.NetworkOpen
	if Of(fc) == v1alpha1.TrustTenant {
		ofTrust = v1alpha1.NetworkIsolated
	}
	return cmp.Or(fc.Spec.IncomingPolicy.Network, installation, ofTrust)
}

// Reach returns which local pods a peer reaches through the tunnel: spec.reach of its ForeignCluster or, if it is
// empty, the value of the installation. If both are empty, a peer with trust Tenant reaches pods that take part in the
// peering, and one with trust SameOwner all.
func Reach(fc *v1alpha1.ForeignCluster, installation v1alpha1.ReachMode) v1alpha1.ReachMode {
	ofTrust := v1alpha1.ReachAll
	if Of(fc) == v1alpha1.TrustTenant {
		ofTrust = v1alpha1.ReachOffloaded
	}
	return cmp.Or(fc.Spec.Reach, installation, ofTrust)
}

// APIAccess returns whether pods on the virtual nodes of a provider have access to the consumer's API server:
// spec.apiAccess of its ForeignCluster or, if it is empty, the value of the installation. If both are empty, pods on a
// provider with trust SameOwner have access, and those on one with trust Tenant have none. spec.apiAccess of a
// VirtualNode overrides the result for that virtual node.
func APIAccess(fc *v1alpha1.ForeignCluster, installation v1alpha1.APIAccess) v1alpha1.APIAccess {
	ofTrust := v1alpha1.APIAccessConsumer
	if Of(fc) == v1alpha1.TrustTenant {
		ofTrust = v1alpha1.APIAccessDisabled
	}
	return cmp.Or(fc.Spec.APIAccess, installation, ofTrust)
}

// NodeAPIAccess returns whether pods on a virtual node have access to the consumer's API server. It returns the empty
// string while the controller manager has not written status.apiAccess of the VirtualNode and spec.apiAccess is empty.
func NodeAPIAccess(node *v1alpha1.VirtualNode) v1alpha1.APIAccess {
	return cmp.Or(node.Spec.APIAccess, node.Status.APIAccess)
}

// KeepCIDRs returns the CIDRs within which CIDRs of a peer are used unchanged if they are free: spec.keepCIDRs of its
// ForeignCluster or, if it has none, those of the installation. If both are empty, any CIDR of a peer with trust
// SameOwner is used unchanged, and none of a peer with trust Tenant: local packets to an unchanged CIDR are sent to the
// peer, so a tenant must not select it.
func KeepCIDRs(fc *v1alpha1.ForeignCluster, installation []string) []string {
	switch {
	case len(fc.Spec.KeepCIDRs) > 0:
		return fc.Spec.KeepCIDRs
	case len(installation) > 0:
		return installation
	case Of(fc) == v1alpha1.TrustSameOwner:
		return slices.Clone(everyCIDR)
	default:
		return nil
	}
}

// everyCIDR contains the CIDRs of both IP families.
var everyCIDR = []string{"0.0.0.0/0", "::/0"}

// tenantObjects are the maximum numbers of objects in each remote namespace of a consumer with trust Tenant. They
// permit no node ports, because their range is shared by the whole cluster, and no load balancers, which have costs.
var tenantObjects = corev1.ResourceList{
	"count/configmaps":                   resource.MustParse("100"),
	"count/secrets":                      resource.MustParse("100"),
	"count/services":                     resource.MustParse("100"),
	"count/ingresses.networking.k8s.io":  resource.MustParse("20"),
	corev1.ResourceServicesNodePorts:     {},
	corev1.ResourceServicesLoadBalancers: {},
}

// tenantReflected is the maximum number of objects, in each remote namespace of a consumer with trust Tenant, of each
// kind that is not in tenantObjects but may be reflected.
var tenantReflected = resource.MustParse("100")

// Objects returns the maximum number of objects of a consumer in each remote namespace, by the names of a
// ResourceQuota. Each maximum is taken from the first of these that specifies one: spec.incomingPolicy.objects of the
// ForeignCluster, the installation, the trust in the consumer. reflected are the kinds, in addition to the built-in
// ones, that the consumer may reflect.
func Objects(
	fc *v1alpha1.ForeignCluster, installation corev1.ResourceList, reflected []metav1.GroupVersionResource,
) corev1.ResourceList {
	most := corev1.ResourceList{}
	if Of(fc) == v1alpha1.TrustTenant {
		for _, kind := range reflected {
			counted := schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
			most[corev1.ResourceName("count/"+counted.String())] = tenantReflected
		}
		maps.Copy(most, tenantObjects)
	}
	maps.Copy(most, installation)
	maps.Copy(most, fc.Spec.IncomingPolicy.Objects)
	return most
}

// tenantObjectBytes is the maximum size, in bytes, of an object of a consumer with trust Tenant.
const tenantObjectBytes = 128 << 10

// MaxObjectBytes returns the maximum size of an object of a consumer, in bytes; 0 if it is not limited. It is
// spec.incomingPolicy.maxObjectBytes of its ForeignCluster or, if it is empty, the value of the installation. If both
// are empty, the trust in the consumer determines the limit.
func MaxObjectBytes(fc *v1alpha1.ForeignCluster, installation int64) int64 {
	var ofTrust int64
	if Of(fc) == v1alpha1.TrustTenant {
		ofTrust = tenantObjectBytes
	}
	return cmp.Or(ptr.Deref(fc.Spec.IncomingPolicy.MaxObjectBytes, 0), installation, ofTrust)
}

// Pods returns the limits for pods of a consumer; nil if it has none. Each field is taken from the first of these in
// which it is not empty: spec.incomingPolicy.pods of the ForeignCluster, the installation, the trust in the consumer.
func Pods(fc *v1alpha1.ForeignCluster, installation *v1alpha1.PodPolicy) *v1alpha1.PodPolicy {
	policy := podPolicy(fc, installation)
	if anything(policy.Tolerations) && anything(policy.RuntimeClasses) && anything(policy.MetadataKeys) &&
		policy.MaxGracePeriodSeconds == nil && policy.Limits == "" {
		return nil
	}
	return policy
}

// podPolicy returns the limits for pods of a consumer, even if they permit everything; Pods returns nil in that case.
func podPolicy(fc *v1alpha1.ForeignCluster, installation *v1alpha1.PodPolicy) *v1alpha1.PodPolicy {
	own := &fc.Spec.IncomingPolicy.Pods
	policy := &v1alpha1.PodPolicy{
		Tolerations:           patterns(fc, own.Tolerations, installation.Tolerations),
		RuntimeClasses:        patterns(fc, own.RuntimeClasses, installation.RuntimeClasses),
		MetadataKeys:          patterns(fc, own.MetadataKeys, installation.MetadataKeys),
		MaxGracePeriodSeconds: cmp.Or(own.MaxGracePeriodSeconds, installation.MaxGracePeriodSeconds),
	}
	if policy.MaxGracePeriodSeconds == nil && Of(fc) == v1alpha1.TrustTenant {
		policy.MaxGracePeriodSeconds = ptr.To[int64](DefaultMaxGracePeriodSeconds)
	}
	// Any is the same as empty, so that offers to consumers of earlier versions do not change.
	if cmp.Or(own.Limits, installation.Limits) == v1alpha1.PodLimitsRequired {
		policy.Limits = v1alpha1.PodLimitsRequired
	}
	return policy
}

// patterns returns a copy of own or, if own is empty, of installation. If both are empty, it returns pattern.Any for
// trust SameOwner, which permits anything, and nil for trust Tenant, which permits nothing.
func patterns(fc *v1alpha1.ForeignCluster, own, installation []string) []string {
	switch {
	case len(own) > 0:
		return slices.Clone(own)
	case len(installation) > 0:
		return slices.Clone(installation)
	case Of(fc) == v1alpha1.TrustSameOwner:
		return []string{pattern.Any}
	default:
		return nil
	}
}

func anything(patterns []string) bool { return slices.Contains(patterns, pattern.Any) }
