// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationvalidation "liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/reflection"
)

// Validate returns an error for each invalid field.
func (p *Policy) Validate() []error {
	var errs []error
	if p.SharePercent < 1 || p.SharePercent > 100 {
		errs = append(errs, fmt.Errorf("--policy-share-percent %d: must be between 1 and 100", p.SharePercent))
	}
	if p.ChangePercent < 0 || p.ChangePercent > 100 {
		errs = append(errs, fmt.Errorf("--policy-change-percent %d: must be between 0 and 100", p.ChangePercent))
	}
	for name, value := range p.Limits {
		problems := validation.IsQualifiedName(name)
		if problem := federationvalidation.UnknownQuotaResource(name); problem != "" {
			problems = append(problems, problem)
		}
		if class, ofClass := v1alpha1.ClassOfStorage(corev1.ResourceName(name)); ofClass {
			problems = append(problems, validation.IsDNS1123Subdomain(class)...)
		}
		if quantity, err := resource.ParseQuantity(value); err != nil || quantity.Sign() < 0 {
			problems = append(problems, "must be a quantity of at least 0, for example 16 or 64Gi")
		}
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--policy-limits %s=%s: %s", name, value, strings.Join(problems, "; ")))
		}
	}
	for flag, labels := range map[string]map[string]string{
		"--cluster-labels": p.ClusterLabels, "--policy-node-selector": p.NodeSelector,
	} {
		for key, value := range labels {
			problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
			if len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s %s=%s: %s", flag, key, value, strings.Join(problems, "; ")))
			}
		}
	}
	trusts := []v1alpha1.PeeringTrust{v1alpha1.TrustTenant, v1alpha1.TrustSameOwner}
	if !slices.Contains(trusts, v1alpha1.PeeringTrust(p.Trust)) {
		errs = append(errs, fmt.Errorf("--policy-trust %q: must be one of %v", p.Trust, trusts))
	}
	shapes := []v1alpha1.OfferShape{v1alpha1.OfferAggregate, v1alpha1.OfferPerNode}
	if !slices.Contains(shapes, v1alpha1.OfferShape(p.Shape)) {
		errs = append(errs, fmt.Errorf("--policy-shape %q: must be one of %v", p.Shape, shapes))
	}
	if len(p.NodeLabels) > maxNodeLabels {
		errs = append(errs, fmt.Errorf("--policy-node-labels: must have at most %d keys, and has %d",
			maxNodeLabels, len(p.NodeLabels)))
	}
	for _, key := range p.NodeLabels {
		problems := validation.IsQualifiedName(key)
		if len(problems) == 0 && !federationvalidation.OfferedLabel(key) {
			problems = []string{"nodes are not offered with this label"}
		}
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--policy-node-labels %s: %s", key, strings.Join(problems, "; ")))
		}
	}
	for flag, classes := range map[string][]string{
		"--policy-storage-classes": p.StorageClasses, "--policy-ingress-classes": p.IngressClasses,
	} {
		for _, class := range classes {
			if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s %q: %s", flag, class, strings.Join(problems, "; ")))
			}
		}
	}
	for _, class := range p.LoadBalancerClasses {
		if problems := validation.IsQualifiedName(class); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--policy-load-balancer-classes %q: %s", class, strings.Join(problems, "; ")))
		}
	}
	errs = append(errs, p.validateExternalVolumes()...)
	errs = append(errs, p.validatePatterns()...)
	_, problems := reflection.ParseKinds(flagOfferKinds, p.ReflectedKinds)
	return append(errs, problems...)
}

// validatePatterns returns an error for each invalid pattern in RemoteNamespaces and ExternalNames, and for each
// other invalid limit of objects, pods, network access and the number of remote namespaces.
func (p *Policy) validatePatterns() []error {
	var errs []error
	for _, err := range slices.Concat(
		federationvalidation.RemoteNamespaces(p.RemoteNamespaces, field.NewPath("--"+flagRemoteNamespaces)),
		federationvalidation.Objects(p.ObjectLimits(), field.NewPath("--"+flagObjects)),
		federationvalidation.ExternalNames(p.ExternalNames, field.NewPath("--"+flagExternalNames)),
		federationvalidation.AnyCIDRs(p.NetworkDNS, field.NewPath("--"+flagDNS)),
	) {
		errs = append(errs, err)
	}
	if p.MaxObjectBytes != 0 && p.MaxObjectBytes < federationvalidation.MinObjectBytes {
		errs = append(errs, fmt.Errorf("--%s %d: must be 0 or at least %d", flagMaxObjectBytes, p.MaxObjectBytes,
			federationvalidation.MinObjectBytes))
	}
	accesses := []v1alpha1.NetworkAccess{"", v1alpha1.NetworkIsolated, v1alpha1.NetworkOpen}
	if !slices.Contains(accesses, v1alpha1.NetworkAccess(p.NetworkAccess)) {
		errs = append(errs, fmt.Errorf("--%s %q: must be empty or one of %v", flagNetworkAccess, p.NetworkAccess,
			accesses[1:]))
	}
	for _, name := range p.NetworkIngressFrom {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q: %s", flagIngressFrom, name, strings.Join(problems, "; ")))
		}
	}
	if p.MaxRemoteNamespaces < 0 {
		errs = append(errs, fmt.Errorf("--%s %d: must be at least 0", flagMaxNamespaces, p.MaxRemoteNamespaces))
	}
	for name, value := range p.Objects {
		if _, err := resource.ParseQuantity(value); err != nil {
			errs = append(errs, fmt.Errorf("--%s %s=%s: must be a number", flagObjects, name, value))
		}
	}
	return append(errs, p.PodFlags.Validate()...)
}

// validateExternalVolumes returns an error for each invalid entry of ExternalVolumesTypes and
// ExternalVolumesCSIDrivers.
func (p *Policy) validateExternalVolumes() []error {
	var errs []error
	for _, flag := range []struct {
		name   string
		values []string
		check  func(string, *field.Path) field.ErrorList
	}{
		{flagExternalVolumesTypes, p.ExternalVolumesTypes, federationvalidation.ExternalVolumeType},
		{flagExternalVolumesCSIDrivers, p.ExternalVolumesCSIDrivers, federationvalidation.CSIDriver},
	} {
		if most := federationvalidation.MaxExternalVolumes; len(flag.values) > most {
			errs = append(errs, fmt.Errorf("--%s: must have at most %d names, and has %d",
				flag.name, most, len(flag.values)))
		}
		for i, value := range flag.values {
			if slices.Contains(flag.values[:i], value) {
				errs = append(errs, fmt.Errorf("--%s: %q is named twice", flag.name, value))
			}
			for _, err := range flag.check(value, field.NewPath("--"+flag.name)) {
				errs = append(errs, err)
			}
		}
	}
	return errs
}
