// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/podquota"
)

// REST serves ShadowPods. It reserves quota for the requests of a shadow pod before it stores the pod.
type REST = reservation.REST[*federation.ShadowPod, corev1.ResourceList, corev1.ResourceList, quota.Sum]

// counted defines how ShadowPods use the quota of their consumer.
var counted = reservation.Kind[*federation.ShadowPod, corev1.ResourceList]{
	Resource: "shadowpods",
	Consumer: func(pod *federation.ShadowPod) *string { return &pod.Status.ForeignCluster },
	Requests: func(pod *federation.ShadowPod) corev1.ResourceList { return quota.Requests(&pod.Spec.Pod) },
	Grows: func(pod, old *federation.ShadowPod) (corev1.ResourceList, bool) {
		if old.Status.Phase != "" {
			return nil, false
		}
		more := quota.More(podquota.Uses(old), podquota.Uses(pod))
		return more, len(more) > 0
	},
	Refusal: refusal,
}

// refusal returns Forbidden for an exceeded quota, like for an exceeded ResourceQuota, with a cause for each exceeded
// resource, or one cause for too many finished shadow pods. Clients would retry TooManyRequests without reporting the
// reason. Any other error is returned unchanged.
func refusal(name string, err error) error {
	var exceeded *podquota.ErrExceeded
	var finished *podquota.ErrTooManyFinished
	if !errors.As(err, &exceeded) && !errors.As(err, &finished) {
		return err
	}
	if finished != nil {
		answer := apierrors.NewForbidden(federation.Resource("shadowpods"), name, err)
		answer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseTooManyFinished,
			Message: finished.Error()}}
		return answer
	}
	return reservation.Exceeded("shadowpods", name, err, v1alpha1.CauseQuotaExceeded, exceeded.Short)
}
