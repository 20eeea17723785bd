// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/resource"
)

// longestGrace is the maximum grace period of a deletion, in seconds. With a longer one, deletionTimestamp might not be
// a valid date.
const longestGrace = math.MaxInt32

type base = resource.Strategy[*federation.ShadowPod, federation.ShadowPodSpec, federation.ShadowPodStatus]

// Strategy is the strategy of ShadowPods. Like the deletion of a pod, their deletion has a grace period. The
// controllers delete the remote pod with the same grace period.
type Strategy struct {
	base
}

// NewStrategy returns the strategy of ShadowPods. Their types must be registered with typer.
func NewStrategy(typer runtime.ObjectTyper) Strategy { return Strategy{kind.Strategy(typer)} }

// CheckGracefulDelete sets the grace period of a deletion; the default is the pod's terminationGracePeriodSeconds. A
// finished pod gets one second, in which its final status can be read. A ShadowPod without finalizers is deleted
// immediately.
func (Strategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	pod := obj.(*federation.ShadowPod)
	if len(pod.Finalizers) == 0 {
		options.GracePeriodSeconds = new(int64)
		return false
	}
	own := max(ptr.Deref(pod.Spec.Pod.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds), 1)
	seconds := ptr.Deref(options.GracePeriodSeconds, own)
	if seconds < 0 || seconds > 0 && pod.Status.Phase != "" {
		// As for pods, a negative grace period means one second.
		seconds = 1
	}
	options.GracePeriodSeconds = ptr.To(min(seconds, longestGrace))
	return true
}

// PrepareForUpdate sets the grace period to 0 when the last finalizer is removed during the deletion. The remote pod
// does not exist any more, but the store would wait for the end of the grace period.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.base.PrepareForUpdate(ctx, obj, old)
	pod, before := obj.(*federation.ShadowPod), old.(*federation.ShadowPod)
	if before.DeletionTimestamp != nil && len(pod.Finalizers) == 0 {
		pod.DeletionGracePeriodSeconds, before.DeletionGracePeriodSeconds = new(int64), new(int64)
	}
}

var _ rest.RESTGracefulDeleteStrategy = Strategy{}
