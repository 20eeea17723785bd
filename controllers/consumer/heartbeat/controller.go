// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeat renews this cluster's Lease at each of its providers. If a provider sets an
// orphanTTL, it ends the peering when the Lease was not renewed for that time.
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
	// retryInterval is the time between two renewals while the provider cannot be reached. The
	// heartbeat expires if three regular renewals are missing.
	retryInterval = 5 * time.Second
	// timeout bounds a request to a provider.
	timeout = 10 * time.Second
)

// Reconciler renews this cluster's Lease at each provider to which a connection is open.
type Reconciler struct {
	// Peers holds the connections of this cluster to its providers.
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
		WithOptions(kit.Options(kit.PeerWorkers)).
		Complete(r)
}

// Reconcile renews the Lease at one provider, and requeues while a connection to it is open.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	peer, ok := r.Peers.Get(key.Name)
	if !ok {
		// The next connection enqueues the ForeignCluster again.
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
		// The provider's version does not support heartbeats, the provider has not created the Lease
		// yet, or it ended the peering and rejects the identity.
		klog.FromContext(ctx).V(4).Info("The provider rejected the heartbeat", "reason", err.Error())
		return kit.Result(naming.HeartbeatInterval, nil)
	default:
		// The condition Ready of the ForeignCluster reports an unreachable provider.
		klog.FromContext(ctx).V(4).Info("The provider could not be reached with a heartbeat", "reason", remote.Describe(err))
		return kit.Result(retryInterval, nil)
	}
}
