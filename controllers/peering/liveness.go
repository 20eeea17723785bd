// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/metrics"
	"liqo.io/federation/controllers/queue"
)

// silentAfter is how long a consumer gives no sign of life before it counts as
// silent.
const silentAfter = v1alpha1.MinOrphanTTL

// liveness watches the consumers of this cluster live, and ends the lending to
// one that has been silent for longer than its orphanTTL.
type liveness struct {
	clock  clock.PassiveClock
	events record.EventRecorder
	// orphanTTL is that of consumers that have none of their own; zero is for
	// ever.
	orphanTTL time.Duration

	get         func(name string) (*v1alpha1.ForeignCluster, error)
	getLease    func(ctx context.Context, namespace string) (*coordinationv1.Lease, error)
	createLease func(ctx context.Context, lease *coordinationv1.Lease) error
	commit      func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error)
	remove      func(ctx context.Context, fc *v1alpha1.ForeignCluster) error

	mu    sync.Mutex
	signs map[string]*sign
}

// NewLiveness makes the controller that says since when a consumer is silent,
// and ends the lending after orphanTTL, unless its ForeignCluster says
// otherwise.
func NewLiveness(config *Config, orphanTTL time.Duration) (*queue.Controller[cache.ObjectName], error) {
	informer := config.FederationInformers.Federation().V1alpha1().ForeignClusters()
	client := config.Federation.FederationV1alpha1().ForeignClusters()
	l := &liveness{
		clock: config.Clock, events: config.Events, orphanTTL: orphanTTL, signs: map[string]*sign{},
		get: informer.Lister().Get,
		getLease: func(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
			return config.Kube.CoordinationV1().Leases(namespace).Get(ctx, naming.HeartbeatLease, getOptions)
		},
		createLease: func(ctx context.Context, lease *coordinationv1.Lease) error {
			_, err := config.Kube.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, createOptions)
			return err
		},
		commit: func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error) {
			return commit.Commit(ctx, client, old, wanted)
		},
		remove: func(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
			// An administrator may have changed the orphanTTL a moment ago.
			options := exactly(fc)
			options.Preconditions.ResourceVersion = ptr.To(fc.ResourceVersion)
			return client.Delete(ctx, fc.Name, options)
		},
	}
	controller := queue.New("consumer-liveness", 2, l.reconcile)
	if _, err := informer.Informer().AddEventHandler(controller.Handle(queue.ObjectKeys)); err != nil {
		return nil, fmt.Errorf("watch for the consumers: %w", err)
	}
	return controller, nil
}

func (l *liveness) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	fc, err := l.get(key.Name)
	if apierrors.IsNotFound(err) {
		l.forget(key.Name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !incoming(fc) || fc.Status.TenantNamespace == "" {
		l.forget(key.Name)
		if fc.DeletionTimestamp != nil || incoming(fc) {
			return 0, nil
		}
		wanted := fc.DeepCopy()
		meta.RemoveStatusCondition(&wanted.Status.Conditions, v1alpha1.ConditionConsumerAlive)
		_, err := l.commit(ctx, fc, wanted)
		return 0, err
	}
	s, err := l.look(ctx, fc)
	if err != nil {
		return 0, err
	}
	now := l.clock.Now()
	ttl := l.ttl(fc)
	if s.renewed != nil && ttl > 0 && now.Sub(s.since) >= ttl {
		return 0, l.end(ctx, fc, ttl)
	}
	wanted := fc.DeepCopy()
	s.judge(wanted, now, ttl)
	changed, err := l.commit(ctx, fc, wanted)
	if err == nil {
		l.tell(fc, wanted, changed)
	}
	return heartbeatPeriod, err
}

// look is what is known of a consumer's signs of life. The Lease is read from
// the API server, not from a cache that may be behind.
func (l *liveness) look(ctx context.Context, fc *v1alpha1.ForeignCluster) (*sign, error) {
	l.mu.Lock()
	s := l.signs[fc.Name]
	l.mu.Unlock()
	if s != nil && s.of == fc.UID && l.clock.Now().Sub(s.looked) < heartbeatPeriod {
		return s, nil
	}
	namespace := fc.Status.TenantNamespace
	lease, err := l.getLease(ctx, namespace)
	if apierrors.IsNotFound(err) {
		lease = newHeartbeat(fc)
		err = l.createLease(ctx, lease)
	}
	if err != nil {
		return nil, fmt.Errorf("look for a sign of life of the consumer in namespace %s: %w", namespace, err)
	}
	s = s.next(fc.UID, lease.Spec.RenewTime, l.clock.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signs[fc.Name] = s
	return s, nil
}

func newHeartbeat(fc *v1alpha1.ForeignCluster) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fc.Status.TenantNamespace, Name: naming.HeartbeatLease,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: fc.Name},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(fc.Name),
			LeaseDurationSeconds: ptr.To(int32(silentAfter / time.Second)),
		},
	}
}

func (l *liveness) forget(name string) {
	metrics.ForgetConsumer(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.signs, name)
}

// ttl is how long a consumer may be silent; zero is for ever.
func (l *liveness) ttl(fc *v1alpha1.ForeignCluster) time.Duration {
	if ttl := fc.Spec.Lending.OrphanTTL; ttl != nil {
		return ttl.Duration
	}
	return l.orphanTTL
}

// end stops lending, as if the consumer had said that it is over.
func (l *liveness) end(ctx context.Context, fc *v1alpha1.ForeignCluster, ttl time.Duration) error {
	var err error
	if outgoing(fc) {
		wanted := fc.DeepCopy()
		wanted.Spec.Incoming = v1alpha1.PeeringDisabled
		_, err = l.commit(ctx, fc, wanted)
	} else {
		err = l.remove(ctx, fc)
	}
	if err != nil {
		return fmt.Errorf("stop lending to a consumer that was silent for %s: %w", ttl, err)
	}
	l.events.Eventf(fc, corev1.EventTypeWarning, ReasonOrphanTTLExpired,
		"The consumer gave no sign of life for %s, its orphanTTL: this cluster stops lending to it, and removes what it left here.", ttl)
	return nil
}

// tell sets the metric, and records an event when the reason of the condition
// is another one.
func (l *liveness) tell(old, now *v1alpha1.ForeignCluster, changed bool) {
	before := meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	after := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	if after.Status != metav1.ConditionUnknown {
		metrics.SetConsumerSilent(now.Name, after.Status == metav1.ConditionFalse)
	}
	if changed && before != nil && before.Reason != after.Reason {
		l.events.Event(now, eventType(after.Reason), after.Reason, after.Message)
	}
}
