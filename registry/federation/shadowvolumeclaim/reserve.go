// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowvolumeclaim

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/storagequota"
)

// REST serves ShadowVolumeClaims. It reserves storage quota for a claim before it stores the claim.
type REST = reservation.REST[*federation.ShadowVolumeClaim, storagequota.Request, corev1.ResourceList, quota.Sum]

// counted defines how ShadowVolumeClaims use the storage quota of their consumer.
var counted = reservation.Kind[*federation.ShadowVolumeClaim, storagequota.Request]{
	Resource: "shadowvolumeclaims",
	Consumer: func(claim *federation.ShadowVolumeClaim) *string { return &claim.Status.ForeignCluster },
	Requests: func(claim *federation.ShadowVolumeClaim) storagequota.Request {
		return storagequota.Request{Class: claim.Spec.StorageClassName, Amounts: storagequota.Uses(claim)}
	},
	Grows: func(claim, old *federation.ShadowVolumeClaim) (storagequota.Request, bool) {
		more := quota.More(storagequota.Uses(old), storagequota.Uses(claim))
		return storagequota.Request{Class: claim.Spec.StorageClassName, Amounts: more}, len(more) > 0
	},
	Refusal: refusal,
}

// refusal returns Forbidden with a cause for each exceeded resource, Invalid for a StorageClass that is not offered,
// and any other error unchanged.
func refusal(name string, err error) error {
	var exceeded *storagequota.ErrExceeded
	if errors.As(err, &exceeded) {
		return reservation.Exceeded("shadowvolumeclaims", name, err, v1alpha1.CauseStorageExceeded, exceeded.Short)
	}
	var class *storagequota.ErrClassNotOffered
	if errors.As(err, &class) {
		return apierrors.NewInvalid(federation.Kind("ShadowVolumeClaim"), name, field.ErrorList{
			field.NotSupported(field.NewPath("spec", "storageClassName"), class.Class, class.Offered),
		})
	}
	return err
}
