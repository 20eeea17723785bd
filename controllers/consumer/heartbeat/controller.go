// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeat renews, at each provider of this cluster, the Lease by which the provider
// detects that this cluster is reachable.
package heartbeat

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "heartbeat"

const (
	// workers renew Leases in parallel: each waits for a provider most of the time.
	workers = 4
	// retryInterval is the time until a Lease is renewed again whose provider was not
	// reached. A heartbeat expires after three missing renewals.
	retryInterval = 5 * time.Second
	// timeout bounds a request to a provider.
	timeout = 10 * time.Second
)

// Reconciler renews the heartbeat of this cluster at each provider that it is connected to.
type Reconciler struct {
	// Peers are the connections to the providers.
	Peers *remote.Peers
	Clock clock.PassiveClock

	connected kit.Trigger
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	r.Peers.Subscribe(func(_ context.Context, foreignCluster string, _ *remote.Peer) error {
		r.connected.Add(kit.Request("", foreignCluster))
		return nil
	})
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		WatchesRawSource(&r.connected).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// Reconcile renews the heartbeat at a provider, as long as there is a connection to it.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	peer, ok := r.Peers.Get(key.Name)
	if !ok {
		// The next connection requests a pass.
		return ctrl.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(r.Clock.Now())}})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encoding the time of a heartbeat: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	leases := peer.Kube.CoordinationV1().Leases(peer.Namespace)
	_, err = leases.Patch(ctx, naming.HeartbeatLease, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case err == nil:
		return kit.Result(naming.HeartbeatInterval, nil)
	case apierrors.IsNotFound(err), remote.Rejected(err):
		// A provider of an earlier version has no Lease, a new one has not created it yet, and
		// one that ended the peering rejects the identity.
		klog.FromContext(ctx).V(4).Info("The provider rejected the heartbeat", "reason", err.Error())
		return kit.Result(naming.HeartbeatInterval, nil)
	default:
		// The ForeignCluster reports an unreachable provider.
		klog.FromContext(ctx).V(4).Info("The provider was not reached with a heartbeat", "reason", remote.Describe(err))
		return kit.Result(retryInterval, nil)
	}
}
