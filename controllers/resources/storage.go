// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationvalidation "liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/quota"
)

// offerStorage adds the storage quota to an offer, from limits, and the storage classes
// that it is valid for. Without requests.storage in the limits it adds neither.
func (p *Policy) offerStorage(
	offer *v1alpha1.ResourceOfferSpec, lending *v1alpha1.PeeringLending, limits corev1.ResourceList,
) {
	offer.Storage = quota.StorageOf(limits)
	if offer.Storage != nil {
		offer.StorageClasses = firstNamed(lending.StorageClasses, p.StorageClasses)
	}
}

// withoutMissingClasses removes the storage classes that this cluster does not have from an
// offer, and returns a sentence that names them, for the answer to the consumer.
func (r *provider) withoutMissingClasses(offer *v1alpha1.ResourceOfferSpec) (string, error) {
	var existing, missing []string
	for _, class := range offer.StorageClasses {
		has, err := r.hasClass(class)
		if err != nil {
			return "", fmt.Errorf("reading storage class %s: %w", class, err)
		}
		if has {
			existing = append(existing, class)
		} else {
			missing = append(missing, class)
		}
	}
	offer.StorageClasses = existing
	if len(missing) == 0 {
		return "", nil
	}
	return " Not offered, since the provider does not have them, are the storage classes " + strings.Join(missing, ", ") + ".", nil
}

// externalVolumes returns the volumes that pods of a consumer may mount without a claim:
// those of its ForeignCluster if it names any, otherwise those of the policy.
func (p *Policy) externalVolumes(lending *v1alpha1.PeeringLending) v1alpha1.ExternalVolumes {
	external := lending.ExternalVolumes
	if len(external.Types) == 0 && len(external.CSIDrivers) == 0 {
		external = v1alpha1.ExternalVolumes{Types: p.ExternalVolumeTypes, CSIDrivers: p.ExternalCSIDrivers}
	}
	return v1alpha1.ExternalVolumes{Types: slices.Clone(external.Types), CSIDrivers: slices.Clone(external.CSIDrivers)}
}

// validateExternalVolumes returns what is wrong with the flags of external volumes.
func (p *Policy) validateExternalVolumes() []error {
	var errs []error
	for _, flag := range []struct {
		name   string
		values []string
		check  func(string, *field.Path) field.ErrorList
	}{
		{flagExternalVolumeTypes, p.ExternalVolumeTypes, federationvalidation.ExternalVolumeType},
		{flagExternalCSIDrivers, p.ExternalCSIDrivers, federationvalidation.CSIDriver},
	} {
		if most := federationvalidation.MaxExternalVolumes; len(flag.values) > most {
			errs = append(errs, fmt.Errorf("--%s: %d names are more than %d", flag.name, len(flag.values), most))
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

// observeStorage reports the storage quota of the accepted offer, and the storage
// classes that it is valid for.
func (r *virtualNodes) observeStorage(node *v1alpha1.VirtualNode) error {
	offer, err := r.offer(node.Namespace, node.Spec.OfferName)
	if ignoreNotFound(err) != nil {
		return err
	}
	node.Status.Storage, node.Status.StorageClasses = nil, nil
	if err != nil {
		return nil
	}
	if granted, classes := quota.StorageGranted([]*v1alpha1.ResourceOffer{offer}); len(granted) > 0 {
		node.Status.Storage, node.Status.StorageClasses = granted, classes
	}
	return nil
}
