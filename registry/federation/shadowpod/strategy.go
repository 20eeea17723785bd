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
	"liqo.io/federation/registry/federation/strategy"
)

// longestGrace is the longest grace period of a deletion, in seconds: the end of a longer one
// may not be a valid date.
const longestGrace = math.MaxInt32

type base = strategy.Strategy[*federation.ShadowPod, federation.ShadowPodSpec, federation.ShadowPodStatus]

// Strategy creates shadow pods, updates their spec, and deletes them as pods are deleted:
// with a grace period, which becomes the grace period of the pod.
type Strategy struct {
	base
}

// NewStrategy returns the strategy of shadow pods, whose types are registered with typer.
func NewStrategy(typer runtime.ObjectTyper) Strategy { return Strategy{kind.Strategy(typer)} }

// CheckGracefulDelete defaults the grace period of a deletion to the grace period of the pod.
// A pod that has ended gets one second, in which its final status can be read. A shadow pod
// without finalizers is deleted at once.
func (Strategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	pod := obj.(*federation.ShadowPod)
	if len(pod.Finalizers) == 0 {
		options.GracePeriodSeconds = new(int64)
		return false
	}
	own := max(ptr.Deref(pod.Spec.Pod.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds), 1)
	seconds := ptr.Deref(options.GracePeriodSeconds, own)
	if seconds < 0 || seconds > 0 && pod.Status.Phase != "" {
		// A negative grace period is one second, as it is for pods.
		seconds = 1
	}
	options.GracePeriodSeconds = ptr.To(min(seconds, longestGrace))
	return true
}

// PrepareForUpdate completes a new version of a shadow pod. One that is being deleted is
// removed with its last finalizer: its pod is gone by then, and the store would wait for the
// rest of the grace period.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.base.PrepareForUpdate(ctx, obj, old)
	pod, before := obj.(*federation.ShadowPod), old.(*federation.ShadowPod)
	if before.DeletionTimestamp != nil && len(pod.Finalizers) == 0 {
		pod.DeletionGracePeriodSeconds, before.DeletionGracePeriodSeconds = new(int64), new(int64)
	}
}

var _ rest.RESTGracefulDeleteStrategy = Strategy{}
