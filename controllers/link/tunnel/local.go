// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/gateway"
)

// Local reads the keys, ranges and endpoints of the local cluster. The controllers of this package
// share one Local.
type Local struct {
	// Client reads the cache of the manager.
	Client client.Client
	Clock  clock.PassiveClock
	// ClusterID is the ID of the local cluster, Namespace its installation namespace.
	ClusterID, Namespace string
	Settings             Settings
	// PodCIDRs are the CIDRs of pods that an administrator configures; empty if they are detected.
	PodCIDRs []string
	// Finder finds the endpoints of the gateway. It is nil if the gateway has no Service, and unused if
	// Settings.Endpoints is not empty.
	Finder *gateway.Finder

	// installation reads the installation namespace.
	installation client.Reader
	announced    announcement
}

func (l *Local) setUp(installation client.Reader) {
	l.installation = installation
	if len(l.Settings.Endpoints) > 0 {
		l.Finder = nil
	}
}

// facts is the data about the local cluster that is sent to peers, as read by one reconcile.
type facts struct {
	// ranges are the CIDRs of the local cluster in ClusterInfo local.
	ranges netmap.Ranges
	// newKey is the public key that the gateway published. usedKey is the public key that the gateway uses, and
	// that is sent to peers; they differ between a change of the Secret with the private key and the next report of the
	// gateway.
	newKey, usedKey string
	// mtu is the size of the largest packet inside of a tunnel in bytes, by the settings or the
	// measurement of the gateway; 0 if it is unknown.
	mtu int32
	// endpoints are the endpoints of the local gateway. If they come from its Service, service is
	// that Service, and unreachable is a sentence about why it has no endpoints, or empty.
	endpoints   []string
	service     *corev1.Service
	unreachable string
	// external are the external CIDRs.
	external []string
}

// readKeys sets the ranges and the public keys in f. A new public key is sent to peers only once the status of the
// TunnelEndpoint shows that the gateway uses it. tunnel may be nil. The returned state is not nil if the pod CIDRs or
// the key are unknown, or the key is invalid.
func (l *Local) readKeys(ctx context.Context, f *facts, tunnel *v1alpha1.TunnelEndpoint) (*state, error) {
	var err error
	if f.ranges, err = clusterinfo.Ranges(ctx, l.Client); err != nil {
		return nil, err
	}
	if len(f.ranges.Pods) == 0 {
		return blocked(ReasonNotConfigured, "The pod CIDRs of this cluster are unknown, see ClusterInfo %s: "+
			"set network.podCIDRs in the values of the chart.", v1alpha1.ClusterInfoName), nil
	}
	if len(l.PodCIDRs) > 0 {
		// If detected CIDRs were sent first, a peer would not remap them. Configured CIDRs that contain them
		// would then conflict with them, and the peer would remap the configured ones.
		if used, err := clusterinfo.UsesPodValues(ctx, l.Client); err != nil {
			return nil, err
		} else if !used {
			return blocked(ReasonNotConfigured, "The value network.podCIDRs is not used yet, see the conditions of "+
				"ClusterInfo %s.", v1alpha1.ClusterInfoName), nil
		}
	}
	published := &corev1.ConfigMap{}
	err = l.installation.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: v1alpha1.WireGuardConfigMap}, published)
	if apierrors.IsNotFound(err) {
		// A gateway of version v0.1.0 does not publish its key: during an upgrade, existing tunnels stay as they are.
		waiting := pending(ReasonAwaitingGateway, "No gateway of this cluster has published its public key in ConfigMap "+
			"%s/%s yet: see the logs of the gateway's pods.", l.Namespace, v1alpha1.WireGuardConfigMap)
		waiting.unchanged = true
		return waiting, nil
	}
	if err != nil {
		return nil, err
	}
	f.newKey = published.Data[v1alpha1.WireGuardPublicKey]
	described := l.Settings.config(l.ClusterID, f.newKey, []string{examplePods})
	if errs := validation.ValidateNetworkConfigSpec(described); len(errs) > 0 {
		return blocked(ReasonKeyInvalid, "ConfigMap %s/%s has no valid WireGuard public key under %s: delete the ConfigMap, "+
			"so that the gateway writes it again.",
			l.Namespace, v1alpha1.WireGuardConfigMap, v1alpha1.WireGuardPublicKey), nil
	}
	if f.usedKey = f.newKey; tunnel != nil && tunnel.Status.PublicKey != "" {
		f.usedKey = tunnel.Status.PublicKey
	}
	return nil, nil
}

// findEndpoints sets the endpoints of the local gateway in f.
func (l *Local) findEndpoints(ctx context.Context, f *facts) error {
	f.endpoints = l.Settings.Endpoints
	if l.Finder == nil {
		return nil
	}
	var err error
	f.endpoints, f.service, err = l.Finder.Find(ctx)
	if f.service != nil && len(f.endpoints) == 0 {
		f.unreachable = gateway.Unreachable(f.service)
	}
	return err
}

// gateway returns the public key and endpoints of the local gateway for a peer. previous is the value that was
// written before, or nil. It is returned if readKeys returns a state, and its endpoints are kept until settled
// returns new ones. after is the time until they are to be read again; 0 means never.
func (l *Local) gateway(
	ctx context.Context, f *facts, tunnel *v1alpha1.TunnelEndpoint, previous *v1alpha1.PeeringGateway,
) (current *v1alpha1.PeeringGateway, after time.Duration, err error) {
	if failed, err := l.readKeys(ctx, f, tunnel); failed != nil || err != nil {
		return previous, 0, err
	}
	if err := l.findEndpoints(ctx, f); err != nil {
		return nil, 0, err
	}
	current = &v1alpha1.PeeringGateway{PublicKey: f.usedKey, Endpoints: f.endpoints}
	if previous != nil {
		current.Endpoints, after = l.settled(f, previous.Endpoints)
	}
	return current, after, nil
}

// announcement has the current endpoints of the local gateway, and the time at which they became current.
type announcement struct {
	mu        sync.Mutex
	endpoints []string
	since     time.Time
}

// settled returns the endpoints to send to a peer that has received the previous ones. If the Service of
// the gateway has type NodePort, the previous ones are kept until the new ones are settleTime old,
// because a restart of a gateway's pod changes them for a moment. left is the rest of that time.
func (l *Local) settled(f *facts, previous []string) (endpoints []string, left time.Duration) {
	if l.Finder == nil {
		return f.endpoints, 0
	}
	a, now := &l.announced, l.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() || !slices.Equal(a.endpoints, f.endpoints) {
		a.endpoints, a.since = f.endpoints, now
	}
	if len(previous) == 0 || slices.Equal(previous, f.endpoints) ||
		f.service == nil || f.service.Spec.Type != corev1.ServiceTypeNodePort {
		return f.endpoints, 0
	}
	if left = a.since.Add(settleTime).Sub(now); left > 0 {
		return previous, left
	}
	return f.endpoints, 0
}
