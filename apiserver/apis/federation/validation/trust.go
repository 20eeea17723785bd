// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/pattern"
	"liqo.io/federation/apiserver/printable"
)

const (
	// maxPatterns is the maximum number of patterns in a list.
	maxPatterns = 64
	// maxObjects is the maximum number of kinds whose objects are limited.
	maxObjects = 32

	// maxPolicies is the maximum number of policies in the status of a ForeignCluster, and
	// maxPolicyName the maximum length of the name of one, in bytes.
	maxPolicies   = 32
	maxPolicyName = 128
	// MaxPolicyValue is the maximum length of the value of a policy in the status of a
	// ForeignCluster, in bytes.
	MaxPolicyValue = 512
)

// peeringTrust validates the trust in a peer, which may be empty.
func peeringTrust(trust federation.PeeringTrust, path *field.Path) field.ErrorList {
	return oneOf(trust, path, "", federation.TrustTenant, federation.TrustSameOwner)
}

// effectivePolicies validates the policies in the status of a ForeignCluster.
func effectivePolicies(policies []federation.EffectivePolicy, path *field.Path) field.ErrorList {
	if len(policies) > maxPolicies {
		return field.ErrorList{field.TooMany(path, len(policies), maxPolicies)}
	}
	var errs field.ErrorList
	for i, policy := range policies {
		at := path.Index(i)
		errs = append(errs, shortLine(policy.Name, maxPolicyName, at.Child("name"))...)
		errs = append(errs, oneOf(policy.Binds, at.Child("binds"), federation.PeerRoleConsumer,
			federation.PeerRoleProvider, federation.PeerRoleBoth)...)
		errs = append(errs, shortLine(policy.Value, MaxPolicyValue, at.Child("value"))...)
		errs = append(errs, oneOf(policy.Source, at.Child("source"), federation.PolicySourceField,
			federation.PolicySourceValue, federation.PolicySourceTrust, federation.PolicySourceDefault)...)
		if slices.ContainsFunc(policies[:i], func(before federation.EffectivePolicy) bool {
			return before.Name == policy.Name && before.Source == policy.Source
		}) {
			errs = append(errs, field.Duplicate(at, truncate(policy.Name)))
		}
	}
	return errs
}

// shortLine validates a text that must be one line of 1 to most bytes of printable text.
func shortLine(text string, most int, path *field.Path) field.ErrorList {
	switch {
	case text == "":
		return field.ErrorList{field.Required(path, "must not be empty")}
	case len(text) > most:
		return field.ErrorList{field.TooLong(path, "", most)}
	case printable.Line(text, most) != text:
		return field.ErrorList{field.Invalid(path, truncate(strings.ToValidUTF8(text, "")),
			"must be one line of printable text")}
	}
	return nil
}

// podPolicy validates limits for pods of a consumer.
func podPolicy(policy *federation.PodPolicy, path *field.Path) field.ErrorList {
	errs := KeyPatterns(policy.Tolerations, path.Child("tolerations"))
	errs = append(errs, RuntimeClasses(policy.RuntimeClasses, path.Child("runtimeClasses"))...)
	errs = append(errs, KeyPatterns(policy.MetadataKeys, path.Child("metadataKeys"))...)
	if grace := policy.MaxGracePeriodSeconds; grace != nil {
		if problem := InvalidMaxGracePeriod(*grace); problem != "" {
			errs = append(errs, field.Invalid(path.Child("maxGracePeriodSeconds"), *grace, problem))
		}
	}
	return append(errs, oneOf(policy.Limits, path.Child("limits"), "", federation.PodLimitsAny,
		federation.PodLimitsRequired)...)
}

// InvalidMaxGracePeriod returns why a number of seconds cannot be the maximum termination grace
// period of pods, or an empty string if it can.
func InvalidMaxGracePeriod(seconds int64) string {
	if seconds < corev1.DefaultTerminationGracePeriodSeconds || seconds > math.MaxInt32 {
		return "must be 30 (the default of pods) to 2147483647"
	}
	return ""
}

// RemoteNamespaces validates patterns of names of remote namespaces. A pattern that matches only names that no provider
// permits is refused.
func RemoteNamespaces(patterns []string, path *field.Path) field.ErrorList {
	return uniqueNames(patterns, maxPatterns, path, func(name string, at *field.Path) field.ErrorList {
		errs := validPattern(name, at, dnsLabel)
		if len(errs) == 0 && naming.IsReserved(anyName(name)) {
			errs = append(errs, field.Forbidden(at, "must not match only names of system namespaces, which are never permitted"))
		}
		return errs
	})
}

// Objects validates maximum numbers of objects in a namespace.
func Objects(list corev1.ResourceList, path *field.Path) field.ErrorList {
	if len(list) > maxObjects {
		return field.ErrorList{field.TooMany(path, len(list), maxObjects)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at, quantity := path.Key(truncate(string(name))), list[name]
		if problem := UnknownObject(string(name)); problem != "" {
			errs = append(errs, field.Invalid(at, truncate(string(name)), problem))
		}
		if quantity.Sign() < 0 || quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be an integer of at least 0"))
		}
	}
	return errs
}

// UnknownObject returns the reason for which a name is not the name of a limit for the number of objects in a
// ResourceQuota, or an empty string if it is one.
func UnknownObject(name string) string {
	if name == string(corev1.ResourceServicesNodePorts) || name == string(corev1.ResourceServicesLoadBalancers) {
		return ""
	}
	counted, found := strings.CutPrefix(name, "count/")
	if !found || len(validation.IsDNS1123Subdomain(counted)) > 0 {
		return "must be services.nodeports, services.loadbalancers or count/<resource>.<group>, for example count/configmaps"
	}
	return ""
}

// ExternalNames validates patterns of DNS names.
func ExternalNames(patterns []string, path *field.Path) field.ErrorList {
	return uniqueNames(patterns, maxPatterns, path, func(name string, at *field.Path) field.ErrorList {
		return validPattern(name, at, subdomain)
	})
}

// KeyPatterns validates patterns of keys of taints, labels or annotations.
func KeyPatterns(patterns []string, path *field.Path) field.ErrorList {
	return uniqueNames(patterns, maxPatterns, path, func(name string, at *field.Path) field.ErrorList {
		return validPattern(name, at, qualifiedName)
	})
}

// RuntimeClasses validates names of RuntimeClasses. The pattern that matches any name must be the only one.
func RuntimeClasses(names []string, path *field.Path) field.ErrorList {
	if slices.Contains(names, pattern.Any) {
		if len(names) > 1 {
			return field.ErrorList{field.Invalid(path, pattern.Any, "must be the only name: it permits all RuntimeClasses")}
		}
		return nil
	}
	return uniqueNames(names, maxPatterns, path, subdomain)
}

// validPattern validates the syntax of a pattern, and calls check with a name that the pattern
// matches.
func validPattern(name string, at *field.Path, check func(string, *field.Path) field.ErrorList) field.ErrorList {
	if err := pattern.Validate(name); err != nil {
		return field.ErrorList{field.Invalid(at, truncate(name), err.Error())}
	}
	return check(anyName(name), at)
}

// anyName returns a name that a pattern matches.
func anyName(name string) string {
	// An x is valid at each position of a name.
	return strings.Replace(name, pattern.Any, "x", 1)
}
