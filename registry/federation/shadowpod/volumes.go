// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/trust"
)

var volumesPath = field.NewPath("spec", "pod", "volumes")

// volumesNotOffered returns an error for each volume that pods may use only if the provider offers it
// (validation.ExternalVolume), for example of type nfs or inline CSI, and that is not offered to the consumer. Offers
// are read only if the pod has such volumes.
func (s attributed) volumesNotOffered(ctx context.Context, volumes []corev1.Volume, consumer string) field.ErrorList {
	if !slices.ContainsFunc(volumes, isExternal) {
		return nil
	}
	offered, err := s.quotas.ExternalVolumes(ctx, consumer)
	if err != nil {
		return field.ErrorList{
			field.InternalError(volumesPath, fmt.Errorf("reading the offers of consumer %s: %w", consumer, err)),
		}
	}
	errs := notOffered(volumes, offered, consumer)
	if len(errs) > 0 {
		trust.CountRefusal(consumer, "shadowpods", trust.RefusedByOffer)
	}
	return errs
}

func isExternal(volume corev1.Volume) bool {
	name, _ := validation.ExternalVolume(&volume)
	return name != ""
}

func notOffered(volumes []corev1.Volume, offered v1alpha1.ExternalVolumes, consumer string) field.ErrorList {
	var errs field.ErrorList
	for i := range volumes {
		name, driver := validation.ExternalVolume(&volumes[i])
		at := volumesPath.Index(i).Child(name)
		switch {
		case name == "":
		case driver != "":
			if !slices.Contains(offered.CSIDrivers, driver) {
				errs = append(errs, field.Forbidden(at.Child("driver"), refused("driver "+driver, offered.CSIDrivers, consumer)))
			}
		case !slices.Contains(offered.Types, name):
			errs = append(errs, field.Forbidden(at, refused("type "+name, offered.Types, consumer)))
		}
	}
	return errs
}

func refused(what string, offered []string, consumer string) string {
	list := "none"
	if len(offered) > 0 {
		list = strings.Join(offered, ", ")
	}
	return fmt.Sprintf("%s is not offered (offered: %s): use a claim, or have the provider's administrator add it to "+
		"spec.incomingPolicy.externalVolumes of ForeignCluster %s", what, list, consumer)
}
