// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

const (
	flagTolerations    = "policy-pods-tolerations"
	flagRuntimeClasses = "policy-pods-runtime-classes"
	flagMetadataKeys   = "policy-pods-metadata-keys"
	flagMaxGracePeriod = "policy-pods-max-grace-period-seconds"
	flagLimits         = "policy-pods-limits"
	flagAPIAccess      = "policy-api-access"
)

// AddAPIAccessFlag adds the flag that sets access, the access of pods on providers to the API server of this cluster.
func AddAPIAccessFlag(fs *pflag.FlagSet, access *string) {
	fs.StringVar(access, flagAPIAccess, *access,
		"Access of pods on providers to the API server of this cluster with tokens of their ServiceAccounts, unless "+
			"spec.apiAccess of a ForeignCluster or a VirtualNode is set: Consumer (pods have access) or Disabled. If empty, "+
			"Disabled with trust Tenant, and Consumer with SameOwner.")
}

// ValidateAPIAccess returns an error if a value of the flag that AddAPIAccessFlag adds is invalid.
func ValidateAPIAccess(access string) []error {
	switch v1alpha1.APIAccess(access) {
	case "", v1alpha1.APIAccessConsumer, v1alpha1.APIAccessDisabled:
		return nil
	}
	return []error{fmt.Errorf("--%s %q: must be %s, %s or empty", flagAPIAccess, access, v1alpha1.APIAccessConsumer,
		v1alpha1.APIAccessDisabled)}
}

// PodFlags are the limits for pods of consumers that the flags of a program set. Each field has the meaning of the
// field of this name in v1alpha1.PodPolicy. The trust in a consumer determines those that are empty or 0, except
// Limits.
type PodFlags struct {
	Tolerations, RuntimeClasses, MetadataKeys []string
	MaxGracePeriodSeconds                     int64
	Limits                                    string
}

// PodLimits returns the limits for pods of a consumer; nil if it has none.
func (f *PodFlags) PodLimits(fc *v1alpha1.ForeignCluster) *v1alpha1.PodPolicy {
	return Pods(fc, f.policy())
}

// policy returns the limits that the flags set.
func (f *PodFlags) policy() *v1alpha1.PodPolicy {
	policy := &v1alpha1.PodPolicy{
		Tolerations: f.Tolerations, RuntimeClasses: f.RuntimeClasses, MetadataKeys: f.MetadataKeys,
		Limits: v1alpha1.PodLimitsPolicy(f.Limits),
	}
	if f.MaxGracePeriodSeconds > 0 {
		policy.MaxGracePeriodSeconds = &f.MaxGracePeriodSeconds
	}
	return policy
}

// AddFlags adds the flags that set f.
func (f *PodFlags) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.Tolerations, flagTolerations, f.Tolerations,
		"Keys of the taints that pods of consumers may tolerate, with at most one * each, for example nvidia.com/*. If "+
			"empty, trust Tenant permits none, and SameOwner all.")
	fs.StringSliceVar(&f.RuntimeClasses, flagRuntimeClasses, f.RuntimeClasses,
		"RuntimeClasses that pods of consumers may use; the first is the default of pods without one. If empty, trust "+
			"Tenant permits none, and SameOwner all.")
	fs.StringSliceVar(&f.MetadataKeys, flagMetadataKeys, f.MetadataKeys,
		"Keys of labels and annotations, with at most one * each, that pods of consumers may have although they control "+
			"components of this cluster. If empty, trust Tenant permits none, and SameOwner all.")
	fs.Int64Var(&f.MaxGracePeriodSeconds, flagMaxGracePeriod, f.MaxGracePeriodSeconds,
		"Maximum termination grace period of pods of consumers, in seconds. If 0, trust Tenant permits 3600, and SameOwner "+
			"any.")
	fs.StringVar(&f.Limits, flagLimits, f.Limits,
		"Required refuses pods of consumers unless each container has limits for memory and ephemeral-storage that are "+
			"not greater than its requests. Any, or empty, permits them.")
}

// Validate returns an error for each invalid value of a flag.
func (f *PodFlags) Validate() []error {
	var errs []error
	for _, err := range slices.Concat(
		validation.KeyPatterns(f.Tolerations, field.NewPath("--"+flagTolerations)),
		validation.RuntimeClasses(f.RuntimeClasses, field.NewPath("--"+flagRuntimeClasses)),
		validation.KeyPatterns(f.MetadataKeys, field.NewPath("--"+flagMetadataKeys)),
	) {
		errs = append(errs, err)
	}
	problem := validation.InvalidMaxGracePeriod(f.MaxGracePeriodSeconds)
	if f.MaxGracePeriodSeconds != 0 && problem != "" {
		errs = append(errs, fmt.Errorf("--%s %d: %s", flagMaxGracePeriod, f.MaxGracePeriodSeconds, problem))
	}
	switch v1alpha1.PodLimitsPolicy(f.Limits) {
	case "", v1alpha1.PodLimitsAny, v1alpha1.PodLimitsRequired:
	default:
		errs = append(errs, fmt.Errorf("--%s %q: must be %s, %s or empty", flagLimits, f.Limits, v1alpha1.PodLimitsAny,
			v1alpha1.PodLimitsRequired))
	}
	return errs
}
