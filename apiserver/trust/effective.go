// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// Installation has the values of the installation that apply to each peer whose ForeignCluster does not set the
// corresponding field. Values that are empty or 0 are determined by the trust in the peer.
type Installation struct {
	// These fields are values below policy of the chart, and arguments for the parameters installation of the functions
	// in this package, which document their effects.
	RemoteNamespaces    []string
	MaxRemoteNamespaces int32
	Network             v1alpha1.NetworkAccess
	Pods                PodFlags
	Objects             corev1.ResourceList
	ReflectedKinds      []metav1.GroupVersionResource
	MaxObjectBytes      int64
	ExternalNames       []string
	// AutoAccept accepts resource requests of consumers without a decision.
	AutoAccept bool
	// Reach selects the local pods that peers reach through the tunnel, and KeepCIDRs are the CIDRs within which free
	// ranges of peers are not remapped. Neither has an effect on peers without a tunnel.
	Reach     v1alpha1.ReachMode
	KeepCIDRs []string
	// APIAccess applies to peers that are providers.
	APIAccess v1alpha1.APIAccess
}

// Words in values of policies.
const (
	none      = "none"
	anyName   = "any"
	unlimited = "unlimited"
)

// generatedNames stands for the names of remote namespaces that every consumer may select.
const generatedNames = "names of DefaultName"

// Policies returns the policies that are in force for a peer, in the order of the table in docs/trust.md.
func Policies(fc *v1alpha1.ForeignCluster, installation *Installation) []v1alpha1.EffectivePolicy {
	own, installed := &fc.Spec.IncomingPolicy, installation.Pods.policy()
	pods := podPolicy(fc, installed)
	decision, decided := decision(own, installation.AutoAccept)
	var policies []v1alpha1.EffectivePolicy
	add := func(binds v1alpha1.PeerRole, name, value string, source v1alpha1.PolicySource) {
		policies = append(policies, v1alpha1.EffectivePolicy{Name: name, Binds: binds, Value: value, Source: source})
	}
	consumer := func(name, value string, source v1alpha1.PolicySource) {
		add(v1alpha1.PeerRoleConsumer, "incomingPolicy."+name, value, source)
	}
	consumer("remoteNamespaces", permitted(Names(fc, installation.RemoteNamespaces), generatedNames),
		sourceOf(len(own.RemoteNamespaces) > 0, len(installation.RemoteNamespaces) > 0))
	consumer("maxRemoteNamespaces", most(int64(MaxRemoteNamespaces(fc, installation.MaxRemoteNamespaces))),
		sourceOf(own.MaxRemoteNamespaces != nil, installation.MaxRemoteNamespaces > 0))
	consumer("decision", string(decision), decided)
	add(v1alpha1.PeerRoleBoth, "reach", string(Reach(fc, installation.Reach)),
		sourceOf(fc.Spec.Reach != "", installation.Reach != ""))
	add(v1alpha1.PeerRoleBoth, "keepCIDRs", cidrs(KeepCIDRs(fc, installation.KeepCIDRs)),
		sourceOf(len(fc.Spec.KeepCIDRs) > 0, len(installation.KeepCIDRs) > 0))
	add(v1alpha1.PeerRoleProvider, "apiAccess", string(APIAccess(fc, installation.APIAccess)),
		sourceOf(fc.Spec.APIAccess != "", installation.APIAccess != ""))
	consumer("network", string(Network(fc, installation.Network)),
		sourceOf(own.Network != "", installation.Network != ""))
	consumer("pods.tolerations", permitted(pods.Tolerations, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable),
		sourceOf(len(own.Pods.Tolerations) > 0, len(installed.Tolerations) > 0))
	consumer("pods.runtimeClasses", permitted(pods.RuntimeClasses),
		sourceOf(len(own.Pods.RuntimeClasses) > 0, len(installed.RuntimeClasses) > 0))
	consumer("pods.metadataKeys", permitted(pods.MetadataKeys),
		sourceOf(len(own.Pods.MetadataKeys) > 0, len(installed.MetadataKeys) > 0))
	consumer("pods.maxGracePeriodSeconds", most(ptr.Deref(pods.MaxGracePeriodSeconds, 0)),
		sourceOf(own.Pods.MaxGracePeriodSeconds != nil, installed.MaxGracePeriodSeconds != nil))
	consumer("pods.limits", string(cmp.Or(pods.Limits, v1alpha1.PodLimitsAny)),
		sourceWithoutTrust(own.Pods.Limits != "", installed.Limits != ""))
	for _, limits := range objectLimits(fc, installation) {
		consumer("objects", limits.value, limits.source)
	}
	consumer("maxObjectBytes", most(MaxObjectBytes(fc, installation.MaxObjectBytes)),
		sourceOf(own.MaxObjectBytes != nil, installation.MaxObjectBytes > 0))
	consumer("externalNames", permitted(ExternalNames(fc, installation.ExternalNames)),
		sourceOf(len(own.ExternalNames) > 0, len(installation.ExternalNames) > 0))
	consumer("refusedPods", string(cmp.Or(own.RefusedPods, v1alpha1.RefusedPodsKeep)),
		sourceWithoutTrust(own.RefusedPods != "", false))
	return policies
}

// sourceOf returns the origin of the value of a policy, given whether the field of the ForeignCluster and the value
// of the installation are set.
func sourceOf(field, value bool) v1alpha1.PolicySource {
	switch {
	case field:
		return v1alpha1.PolicySourceField
	case value:
		return v1alpha1.PolicySourceValue
	default:
		return v1alpha1.PolicySourceTrust
	}
}

// sourceWithoutTrust is sourceOf for a policy whose default is the same for every trust.
func sourceWithoutTrust(field, value bool) v1alpha1.PolicySource {
	if !field && !value {
		return v1alpha1.PolicySourceDefault
	}
	return sourceOf(field, value)
}

// decision returns the decision about resource requests of a consumer, and its source. The field is the source, too, if
// the controllers set it to Manual in a new ForeignCluster with trust Tenant.
func decision(own *v1alpha1.IncomingPolicy, autoAccept bool) (v1alpha1.PeeringDecision, v1alpha1.PolicySource) {
	switch {
	case own.Decision != "":
		return own.Decision, v1alpha1.PolicySourceField
	case autoAccept:
		return v1alpha1.PeeringAccept, v1alpha1.PolicySourceValue
	default:
		return v1alpha1.PeeringManual, v1alpha1.PolicySourceValue
	}
}

// limits are maximum numbers of objects from one source.
type limits struct {
	value  string
	source v1alpha1.PolicySource
}

// objectLimits returns the maximum numbers of objects of a consumer, by source.
func objectLimits(fc *v1alpha1.ForeignCluster, installation *Installation) []limits {
	numbers := Objects(fc, installation.Objects, installation.ReflectedKinds)
	bySource := map[v1alpha1.PolicySource][]string{}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		_, field := fc.Spec.IncomingPolicy.Objects[name]
		_, value := installation.Objects[name]
		source, number := sourceOf(field, value), numbers[name]
		bySource[source] = append(bySource[source], string(name)+"="+number.String())
	}
	if Of(fc) == v1alpha1.TrustSameOwner {
		others := "others " + unlimited
		if len(numbers) == 0 {
			others = unlimited
		}
		bySource[v1alpha1.PolicySourceTrust] = []string{others}
	}
	var all []limits
	for _, source := range []v1alpha1.PolicySource{
		v1alpha1.PolicySourceField, v1alpha1.PolicySourceValue, v1alpha1.PolicySourceTrust,
	} {
		if len(bySource[source]) > 0 {
			all = append(all, limits{joined(bySource[source]), source})
		}
	}
	return all
}

// permitted returns the text of what patterns permit, with the names in always, which are permitted in addition.
func permitted(patterns []string, always ...string) string {
	if anything(patterns) {
		return anyName
	}
	return cmp.Or(joined(slices.Concat(always, patterns)), none)
}

// cidrs returns the text of the CIDRs of KeepCIDRs.
func cidrs(kept []string) string {
	if slices.Equal(kept, everyCIDR) {
		return anyName
	}
	return cmp.Or(joined(kept), none)
}

// most returns the text of a maximum number; 0 is unlimited.
func most(number int64) string {
	if number == 0 {
		return unlimited
	}
	return strconv.FormatInt(number, 10)
}

// joined returns the names, separated by commas. If the text is too long for a status, it has the first names, and the
// number of the others.
func joined(names []string) string {
	text := strings.Join(names, ", ")
	for shown := len(names) - 1; len(text) > validation.MaxPolicyValue && shown > 0; shown-- {
		text = fmt.Sprintf("%s, and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return text
}
