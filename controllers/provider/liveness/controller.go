// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package liveness observes the heartbeats of the consumers of this cluster, and ends the
// incoming peering with a consumer whose last heartbeat is older than its orphanTTL.
package liveness

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/metrics"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "consumer-liveness"

// Reasons of the condition ConsumerAlive and events of a ForeignCluster.
const (
	// ReasonNoHeartbeat means that the consumer has sent no heartbeat yet.
	ReasonNoHeartbeat = "NoHeartbeat"
	// ReasonHeartbeatReceived means that the consumer sends heartbeats.
	ReasonHeartbeatReceived = "HeartbeatReceived"
	// ReasonHeartbeatExpired means that the last heartbeat of the consumer expired. Check the consumer's controller
	// manager: docs/peerings.md#heartbeats.
	ReasonHeartbeatExpired = "HeartbeatExpired"
	// ReasonOrphanTTLExpired means that policy.orphanTTL has passed since the last heartbeat, which ended the peering.
	// Peer again with a new invitation.
	ReasonOrphanTTLExpired = "OrphanTTLExpired"
)

const (
	// workers is the number of consumers whose heartbeats are observed in parallel.
	workers = 2
	// heartbeatLifetime is the time after which a heartbeat expires.
	heartbeatLifetime = v1alpha1.MinOrphanTTL
)

// Reconciler sets the condition ConsumerAlive of ForeignClusters, and ends the incoming peering of a
// consumer that sends no heartbeat during its orphanTTL.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Events receives events of ForeignClusters.
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// OrphanTTL applies to consumers whose ForeignCluster does not set spec.incomingPolicy.orphanTTL.
	// Zero means that their peerings are never ended.
	OrphanTTL time.Duration

	mu         sync.Mutex
	heartbeats map[string]*heartbeat
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// Reconcile observes the heartbeat of one consumer.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	fc := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, key.NamespacedName, fc)
	if apierrors.IsNotFound(err) {
		r.forget(key.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return kit.Result(r.reconcile(ctx, fc))
}

func (r *Reconciler) reconcile(ctx context.Context, fc *v1alpha1.ForeignCluster) (time.Duration, error) {
	if !kit.IncomingEnabled(fc) || fc.Status.TenantNamespace == "" {
		r.forget(fc.Name)
		if fc.DeletionTimestamp != nil || kit.IncomingEnabled(fc) {
			return 0, nil
		}
		wanted := fc.DeepCopy()
		meta.RemoveStatusCondition(&wanted.Status.Conditions, v1alpha1.ConditionConsumerAlive)
		_, err := kit.Commit(ctx, r.Client, fc, wanted)
		return 0, err
	}
	last, err := r.observe(ctx, fc)
	if err != nil {
		return 0, err
	}
	now := r.Clock.Now()
	ttl := r.ttl(fc)
	if last.renewed != nil && ttl > 0 && now.Sub(last.since) >= ttl {
		return 0, r.end(ctx, fc, ttl)
	}
	wanted := fc.DeepCopy()
	last.report(wanted, now, ttl)
	changed, err := kit.Commit(ctx, r.Client, fc, wanted)
	if err == nil {
		r.publish(fc, wanted, changed)
	}
	return naming.HeartbeatInterval, err
}

// observe reads the Lease of a consumer, at most once per HeartbeatInterval, and returns the heartbeat.
// It creates the Lease if it does not exist. It reads the API server, because a heartbeat would seem to
// expire while a cache is outdated.
func (r *Reconciler) observe(ctx context.Context, fc *v1alpha1.ForeignCluster) (*heartbeat, error) {
	r.mu.Lock()
	last := r.heartbeats[fc.Name]
	r.mu.Unlock()
	if last != nil && last.of == fc.UID && r.Clock.Now().Sub(last.readAt) < naming.HeartbeatInterval {
		return last, nil
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: fc.Status.TenantNamespace, Name: naming.HeartbeatLease}
	err := r.Live.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		lease = newLease(fc)
		err = r.Client.Create(ctx, lease)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the heartbeat of the consumer in namespace %s: %w", key.Namespace, err)
	}
	last = last.next(fc.UID, lease.Spec.RenewTime, r.Clock.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heartbeats == nil {
		r.heartbeats = map[string]*heartbeat{}
	}
	r.heartbeats[fc.Name] = last
	return last, nil
}

func newLease(fc *v1alpha1.ForeignCluster) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fc.Status.TenantNamespace, Name: naming.HeartbeatLease,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: fc.Name},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(fc.Name),
			LeaseDurationSeconds: ptr.To(int32(heartbeatLifetime / time.Second)),
		},
	}
}

func (r *Reconciler) forget(name string) {
	metrics.ForgetConsumer(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.heartbeats, name)
}

// ttl returns the orphanTTL of a consumer; zero means that its peering is never ended.
func (r *Reconciler) ttl(fc *v1alpha1.ForeignCluster) time.Duration {
	if ttl := fc.Spec.IncomingPolicy.OrphanTTL; ttl != nil {
		return ttl.Duration
	}
	return r.OrphanTTL
}

// end ends the incoming peering as if the consumer had withdrawn its resource request: it deletes the
// ForeignCluster or, if the outgoing direction is enabled, disables the incoming one.
func (r *Reconciler) end(ctx context.Context, fc *v1alpha1.ForeignCluster, ttl time.Duration) error {
	var err error
	if kit.OutgoingEnabled(fc) {
		wanted := fc.DeepCopy()
		wanted.Spec.Incoming = v1alpha1.PeeringDisabled
		_, err = kit.Commit(ctx, r.Client, fc, wanted)
	} else {
		// The resourceVersion prevents the deletion if an administrator changed the orphanTTL meanwhile.
		err = r.Client.Delete(ctx, fc, client.Preconditions{UID: &fc.UID, ResourceVersion: &fc.ResourceVersion})
	}
	if err != nil {
		return fmt.Errorf("ending the peering after an orphanTTL of %s: %w", ttl, err)
	}
	r.Events.Eventf(fc, corev1.EventTypeWarning, ReasonOrphanTTLExpired,
		"The consumer sent no heartbeat for %s, its orphanTTL: "+
			"this cluster ends the incoming peering, and deletes the pods and objects of the consumer.", ttl)
	return nil
}

// publish sets the metric of an expired heartbeat. It also emits an event if the reason of the condition
// ConsumerAlive differs between old and now, but none for the first condition. changed is false if now was not
// written, because it equals old.
func (r *Reconciler) publish(old, now *v1alpha1.ForeignCluster, changed bool) {
	before := meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	after := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	if after.Status != metav1.ConditionUnknown {
		metrics.SetHeartbeatExpired(now.Name, after.Status == metav1.ConditionFalse)
	}
	if !changed || before == nil || before.Reason == after.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if after.Reason == ReasonHeartbeatExpired {
		kind = corev1.EventTypeWarning
	}
	r.Events.Event(now, kind, after.Reason, after.Message)
}
