// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/remote"
)

// maxAnswer is the largest size that a provider may report for a volume, 1 Ei, which is also the most that a
// ShadowVolumeClaim may request.
var maxAnswer = resource.MustParse("1Ei")

// trimAnswer is the transform of the caches of ShadowVolumeClaims, which keeps only the fields that the consumer uses.
func trimAnswer(object any) (any, error) {
	if claim, ok := object.(*v1alpha1.ShadowVolumeClaim); ok {
		return answered(claim), nil
	}
	return object, nil
}

// answered returns a copy of a provider's ShadowVolumeClaim that has only the fields that the consumer uses. It omits
// invalid and unbounded values, because local API servers would refuse them in every retry.
func answered(claim *v1alpha1.ShadowVolumeClaim) *v1alpha1.ShadowVolumeClaim {
	kept := &v1alpha1.ShadowVolumeClaim{
		TypeMeta: claim.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Generation: claim.Generation, DeletionTimestamp: claim.DeletionTimestamp,
		},
		Spec: v1alpha1.ShadowVolumeClaimSpec{
			StorageClassName: name(claim.Spec.StorageClassName), Storage: claim.Spec.Storage,
		},
		Status: v1alpha1.ShadowVolumeClaimStatus{Capacity: size(claim.Status.Capacity)},
	}
	if name(claim.Name) != "" {
		kept.Labels = map[string]string{v1alpha1.LabelOrigin: name(claim.Labels[v1alpha1.LabelOrigin])}
		kept.Annotations = map[string]string{
			v1alpha1.AnnotationOriginNamespace: name(claim.Annotations[v1alpha1.AnnotationOriginNamespace]),
			volume.AnnotationOriginClaim:       name(claim.Annotations[volume.AnnotationOriginClaim]),
		}
	}
	switch claim.Status.Phase {
	case v1alpha1.ShadowVolumeClaimPending, v1alpha1.ShadowVolumeClaimBound, v1alpha1.ShadowVolumeClaimLost:
		kept.Status.Phase = claim.Status.Phase
	}
	for _, condition := range claim.Status.Conditions {
		known := condition.Type == v1alpha1.ConditionVolumeBound || condition.Type == v1alpha1.ConditionVolumeResized
		sameType := func(c metav1.Condition) bool { return c.Type == condition.Type }
		if known && !slices.ContainsFunc(kept.Status.Conditions, sameType) {
			kept.Status.Conditions = append(kept.Status.Conditions, metav1.Condition{
				Type: condition.Type, Status: condition.Status,
				Reason: remote.Text(condition.Reason), Message: remote.Text(condition.Message),
			})
		}
	}
	return kept
}

// name returns the text if it is a DNS-1123 subdomain, which is valid as the name of an object, otherwise the empty
// string.
func name(text string) string {
	if len(validation.IsDNS1123Subdomain(text)) > 0 {
		return ""
	}
	return text
}

// size returns the size of a volume in whole bytes; nil if quantity is nil, not positive or larger than maxAnswer.
func size(quantity *resource.Quantity) *resource.Quantity {
	if quantity == nil || quantity.Sign() <= 0 || quantity.Cmp(maxAnswer) > 0 {
		return nil
	}
	return resource.NewQuantity(quantity.Value(), quantity.Format)
}
