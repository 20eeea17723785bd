// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

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

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/controllers/remote"
)

const (
	// heartbeatPeriod is how often, and heartbeatRetry how soon again when the
	// provider was not reached: a consumer is not silent before three were lost.
	heartbeatPeriod = 20 * time.Second
	heartbeatRetry  = 5 * time.Second
)

// heartbeats gives each provider of this cluster signs of life.
type heartbeats struct {
	clock clock.PassiveClock
	// renew writes the time into the Lease at a provider, and is false where
	// there is no connection to it.
	renew func(ctx context.Context, foreignCluster string, patch []byte) (bool, error)
}

// NewHeartbeats makes the controller that renews, at every provider that this
// cluster is connected to, the Lease by which the provider sees it live.
func NewHeartbeats(config *Config) *queue.Controller[string] {
	h := &heartbeats{clock: config.Clock, renew: config.renewHeartbeat}
	controller := queue.New("heartbeat", 4, h.reconcile)
	config.Peers.Subscribe(func(_ context.Context, foreignCluster string, _ *remote.Peer) error {
		controller.Add(foreignCluster)
		return nil
	})
	return controller
}

func (h *heartbeats) reconcile(ctx context.Context, foreignCluster string) (time.Duration, error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(h.clock.Now())}})
	if err != nil {
		return 0, fmt.Errorf("write the time of a sign of life: %w", err)
	}
	connected, err := h.renew(ctx, foreignCluster, patch)
	switch {
	case !connected:
		// The next connection begins again.
		return 0, nil
	case err == nil:
		return heartbeatPeriod, nil
	case apierrors.IsNotFound(err), remote.Rejected(err):
		// An older provider wants none, a new one has not made the Lease yet,
		// and one that ended the peering does not let us.
		klog.FromContext(ctx).V(4).Info("The provider takes no sign of life", "reason", err.Error())
		return heartbeatPeriod, nil
	default:
		// That a provider does not answer is said in its ForeignCluster.
		klog.FromContext(ctx).V(4).Info("The provider was not reached with a sign of life", "reason", remote.Describe(err))
		return heartbeatRetry, nil
	}
}

func (c *Config) renewHeartbeat(ctx context.Context, foreignCluster string, patch []byte) (bool, error) {
	peer, ok := c.Peers.Get(foreignCluster)
	if !ok {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	_, err := peer.Kube.CoordinationV1().Leases(peer.Namespace).Patch(ctx, naming.HeartbeatLease, types.MergePatchType, patch, metav1.PatchOptions{})
	return true, err
}
