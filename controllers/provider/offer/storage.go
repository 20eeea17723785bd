// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
)

// offerStorage adds the storage limits as a quota, and the storage classes, to an offer. It adds neither
// if the limits have no requests.storage.
func (p *Policy) offerStorage(
	offer *v1alpha1.ResourceOfferSpec, incoming *v1alpha1.IncomingPolicy, limits corev1.ResourceList,
) {
	offer.Storage = quota.StorageOf(limits)
	if offer.Storage != nil {
		offer.StorageClasses = firstNonEmpty(incoming.StorageClasses, p.StorageClasses)
	}
}

// withoutMissingClasses removes the storage classes that this cluster does not have from an
// offer, and returns a sentence that names them, for the answer to the consumer.
func (r *Reconciler) withoutMissingClasses(ctx context.Context, offer *v1alpha1.ResourceOfferSpec) (string, error) {
	var existing, missing []string
	for _, class := range offer.StorageClasses {
		err := r.Client.Get(ctx, client.ObjectKey{Name: class}, &storagev1.StorageClass{})
		switch {
		case err == nil:
			existing = append(existing, class)
		case apierrors.IsNotFound(err):
			missing = append(missing, class)
		default:
			return "", fmt.Errorf("reading storage class %s: %w", class, err)
		}
	}
	offer.StorageClasses = existing
	if len(missing) == 0 {
		return "", nil
	}
	return " These storage classes do not exist on the provider and are not offered: " +
		strings.Join(missing, ", ") + ".", nil
}

// externalVolumes returns the volumes that pods of a consumer may mount without a claim, by
// spec.incomingPolicy.externalVolumes of the ForeignCluster or, if that is not set, by the policy.
func (p *Policy) externalVolumes(incoming *v1alpha1.IncomingPolicy) v1alpha1.ExternalVolumes {
	external := incoming.ExternalVolumes
	if len(external.Types) == 0 && len(external.CSIDrivers) == 0 {
		external = v1alpha1.ExternalVolumes{Types: p.ExternalVolumesTypes, CSIDrivers: p.ExternalVolumesCSIDrivers}
	}
	return v1alpha1.ExternalVolumes{Types: slices.Clone(external.Types), CSIDrivers: slices.Clone(external.CSIDrivers)}
}
