// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/registry/federation/reservation"
)

// LimitsOf returns the limits for pods of a consumer; nil if the consumer has none. consumer is the name of its
// ForeignCluster.
type LimitsOf func(ctx context.Context, consumer string) (*v1alpha1.PodPolicy, error)

var podPath = field.NewPath("spec", "pod")

// Validate returns the errors of a new ShadowPod, including those about external volumes that are not offered to its
// consumer and about values beyond the limits for pods of the consumer.
func (s attributed) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	pod := obj.(*federation.ShadowPod)
	errs := s.Strategy.Validate(ctx, pod)
	consumer, remote := reservation.Consumer(ctx)
	if len(errs) > 0 || !remote || consumer == "" {
		return errs
	}
	errs = s.volumesNotOffered(ctx, pod.Spec.Pod.Volumes, consumer)
	return append(errs, s.beyondLimits(ctx, pod, nil, consumer)...)
}

// ValidateUpdate returns the errors of an updated ShadowPod, including those about changes that are beyond the limits
// for pods of its consumer.
func (s attributed) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	pod, before := obj.(*federation.ShadowPod), old.(*federation.ShadowPod)
	errs := s.Strategy.ValidateUpdate(ctx, pod, before)
	if consumer := before.Status.ForeignCluster; len(errs) == 0 && consumer != "" {
		errs = s.beyondLimits(ctx, pod, before, consumer)
	}
	return errs
}

// beyondLimits returns an error for each value of a pod that is not in old and is beyond the limits of its consumer. It
// reads these limits only if the strictest possible limits would refuse a value. The limits of a consumer do not depend
// on the offers to it, because the consumer writes the phase of these offers.
func (s attributed) beyondLimits(
	ctx context.Context, pod, old *federation.ShadowPod, consumer string,
) field.ErrorList {
	if len(trust.Refusals(trust.Strictest(), Template(pod), Template(old), podPath, consumer)) == 0 {
		return nil
	}
	policy, err := s.limitsOf(ctx, consumer)
	if err != nil {
		return field.ErrorList{field.InternalError(podPath, fmt.Errorf("reading ForeignCluster %s: %w", consumer, err))}
	}
	if policy == nil {
		return nil
	}
	errs := trust.Refusals(policy, Template(pod), Template(old), podPath, consumer)
	if len(errs) > 0 {
		trust.CountRefusal(consumer, "shadowpods", trust.RefusedByLimits)
	}
	return errs
}

// Template returns the metadata and the spec of the pod that a ShadowPod defines; nil for nil.
func Template(pod *federation.ShadowPod) *corev1.PodTemplateSpec {
	if pod == nil {
		return nil
	}
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec.Pod,
	}
}
