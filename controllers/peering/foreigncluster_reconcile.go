// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// reconciler takes every direction of a peering one pass further.
type reconciler struct {
	clock  clock.PassiveClock
	events record.EventRecorder
	get    func(name string) (*v1alpha1.ForeignCluster, error)
	// forget drops what is kept in memory about a foreign cluster.
	forget func(name string)
	commit func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error)
	// directions are independent of each other: one that waits or fails does
	// not keep the others from going on.
	directions [][]step
	// networking is that of foreign clusters that do not say.
	networking v1alpha1.NetworkingMode
}

func (r *reconciler) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	fc, err := r.get(key.Name)
	if apierrors.IsNotFound(err) {
		r.forget(key.Name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	p := &pass{fc: fc.DeepCopy(), now: r.clock.Now(), networking: r.networking}
	if fc.DeletionTimestamp == nil && !slices.Contains(fc.Finalizers, v1alpha1.Finalizer) {
		if !kit.OutgoingEnabled(fc) && !kit.IncomingEnabled(fc) && fc.Status.ObservedGeneration == fc.Generation {
			return 0, nil
		}
		if kit.OutgoingEnabled(fc) || kit.IncomingEnabled(fc) {
			p.fc.Finalizers = append(p.fc.Finalizers, v1alpha1.Finalizer)
			_, err := r.commit(ctx, fc, p.fc)
			return 0, err
		}
	}

	var after time.Duration
	var failures []error
	for _, steps := range r.directions {
		again, err := run(ctx, p, steps)
		after = sooner(after, again)
		failures = append(failures, err)
	}
	if equality.Semantic.DeepEqual(fc.Spec, p.fc.Spec) && equality.Semantic.DeepEqual(fc.ObjectMeta, p.fc.ObjectMeta) {
		summarize(p)
	} else {
		// Status waits for the next pass, which sees the new spec.
		p.fc.Status = *fc.Status.DeepCopy()
	}
	failure := errors.Join(failures...)
	if failure == nil && undone(p.fc) && equality.Semantic.DeepEqual(fc.Status, p.fc.Status) {
		p.fc.Finalizers = slices.DeleteFunc(p.fc.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	}
	changed, err := r.commit(ctx, fc, p.fc)
	if err == nil && changed {
		r.tell(fc, p.fc)
	}
	return after, errors.Join(failure, err)
}

// undone tells that nothing holds a ForeignCluster back from being deleted.
func undone(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp != nil &&
		fc.Status.OutgoingPeering == v1alpha1.PeeringNone && fc.Status.IncomingPeering == v1alpha1.PeeringNone
}

// tell records an event for each condition that has another reason now.
func (r *reconciler) tell(old, now *v1alpha1.ForeignCluster) {
	for _, condition := range now.Status.Conditions {
		before := meta.FindStatusCondition(old.Status.Conditions, condition.Type)
		if condition.Type == v1alpha1.ConditionReady && condition.Reason != ReasonReady && condition.Reason != ReasonProviderUnreachable && condition.Reason != ReasonVirtualNodeNotReady {
			continue
		}
		if before != nil && before.Reason == condition.Reason {
			continue
		}
		if before == nil && condition.Reason == ReasonDisabled {
			continue
		}
		r.events.Event(now, eventType(condition.Reason), condition.Reason, condition.Message)
	}
}

// eventType is a warning for what somebody may have to do something about.
func eventType(reason string) string {
	switch reason {
	case ReasonDisabled, ReasonDisconnecting, ReasonIdentityPending, ReasonIdentityIssued, ReasonAwaitingConsumer,
		ReasonAwaitingProvider, ReasonAwaitingDecision, ReasonOfferAccepted, ReasonReady, ReasonNamespaceTerminating, ReasonVirtualNodeNotReady,
		ReasonVolumesMoving, ReasonVolumesReleasing, ReasonVolumesReleased:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
