// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the condition Networking of a ForeignCluster, and of Accepted of a
// NetworkConfig.
const (
	ReasonConnected             = "Connected"
	ReasonConnecting            = "Connecting"
	ReasonTunnelFailing         = "TunnelFailing"
	ReasonAwaitingPeering       = "AwaitingPeering"
	ReasonPeerTooOld            = "PeerTooOld"
	ReasonAwaitingNetworkConfig = "AwaitingNetworkConfig"
	ReasonAwaitingAnswer        = "AwaitingAnswer"
	ReasonNotConfigured         = "NotConfigured"
	ReasonKeyInvalid            = "KeyInvalid"
	ReasonNetworkConfigRefused  = "NetworkConfigRefused"
	ReasonPeerRefuses           = "PeerRefuses"
	ReasonAddressesExhausted    = "AddressesExhausted"
	ReasonAccepted              = "Accepted"
	ReasonGatewayRefused        = "GatewayRefused"
	ReasonGatewaySilent         = "GatewaySilent"
)

// controlPlaneOnly is what the gateway gives as the reason of the condition
// Connected, where nothing was agreed upon but the tunnel itself.
const controlPlaneOnly = "ControlPlaneOnly"

// patience is how long a tunnel that was connected may be silent before the
// pods behind it count as out of reach: a gateway that takes over needs less.
const patience = 30 * time.Second

// verdict is how the network to another cluster stands, and why. Without a
// reason nothing is wanted.
type verdict struct {
	phase           v1alpha1.PeeringPhase
	reason, message string
	// latency is that of a tunnel that is connected, in microseconds.
	latency int64
}

func pending(reason, format string, args ...any) *verdict {
	return &verdict{phase: v1alpha1.PeeringPending, reason: reason, message: fmt.Sprintf(format, args...)}
}

func failing(reason, format string, args ...any) *verdict {
	return &verdict{phase: v1alpha1.PeeringError, reason: reason, message: fmt.Sprintf(format, args...)}
}

// absent tells why there is no tunnel to a cluster.
func absent(fc *v1alpha1.ForeignCluster, tunnel bool, directions []direction) verdict {
	enabled := fc.DeletionTimestamp == nil && (fc.Spec.Outgoing == v1alpha1.PeeringEnabled || fc.Spec.Incoming == v1alpha1.PeeringEnabled)
	if !tunnel || !enabled {
		return verdict{phase: v1alpha1.PeeringNone}
	}
	for _, d := range directions {
		if d.phase == v1alpha1.PeeringEstablished && !d.able {
			return *pending(ReasonPeerTooOld, "The version of the other cluster knows of no tunnels: upgrade it.")
		}
	}
	return *pending(ReasonAwaitingPeering, "No direction of the peering is established yet.")
}

// standing tells how a tunnel stands that was agreed upon, by what the gateway
// says of it. One that is silent by now said it too long ago.
func (p *pass) standing(now time.Time, silent bool) verdict {
	if silent {
		return *pending(ReasonGatewaySilent, "No gateway of this cluster has renewed the Lease %s for %s, so nobody knows how TunnelEndpoint %s stands: see what its pods say.",
			v1alpha1.GatewayName, leasePatience, p.endpoint.Name)
	}
	status := &p.endpoint.Status
	said, left, alone := "the gateway has said nothing about it", time.Duration(0), false
	if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected); condition != nil {
		alone = condition.Reason == controlPlaneOnly
		said, left = remote.Text(condition.Message), condition.LastTransitionTime.Add(patience).Sub(now)
	}
	switch status.Phase {
	case v1alpha1.TunnelConnected:
		if alone {
			break // no pod is reached by that
		}
		// Also when the agreement has changed: until the gateway has seen that, the
		// tunnel is as it was.
		return verdict{v1alpha1.PeeringEstablished, ReasonConnected, "The tunnel is connected.", status.LatencyMicroseconds}
	case v1alpha1.TunnelError:
		if status.ObservedGeneration >= p.endpoint.Generation {
			return *failing(ReasonTunnelFailing, "TunnelEndpoint %s: %s", p.endpoint.Name, said)
		}
	}
	waiting := pending(ReasonConnecting, "TunnelEndpoint %s is not connected: %s", p.endpoint.Name, said)
	if p.nowhere != "" {
		waiting.message += " " + p.nowhere
	}
	if p.fc.Status.Networking == v1alpha1.PeeringEstablished && left > 0 {
		waiting.phase = v1alpha1.PeeringEstablished
		p.after = sooner(p.after, left)
	}
	return *waiting
}

// sooner is the shorter of two durations, where zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// tell writes how the network to a cluster stands, and what that one has to know
// of our gateway. Where there is to be no tunnel, only what was said of one is
// taken back: the rest is not ours to say.
func (r *reconciler) tell(ctx context.Context, fc *v1alpha1.ForeignCluster, gateway *v1alpha1.PeeringGateway, v verdict) error {
	wanted := fc.DeepCopy()
	wanted.Status.Gateway = gateway
	if r.mode(fc) == v1alpha1.NetworkingTunnel {
		wanted.Status.Networking = v.phase
	}
	wanted.Status.LatencyMicroseconds = v.latency
	if v.reason == "" {
		meta.RemoveStatusCondition(&wanted.Status.Conditions, v1alpha1.ConditionNetworking)
	} else {
		status := metav1.ConditionFalse
		if v.reason == ReasonConnected {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&wanted.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionNetworking, Status: status, Reason: v.reason, Message: v.message, ObservedGeneration: fc.Generation,
		})
	}
	changed, err := commit.Commit(ctx, r.Federation.FederationV1alpha1().ForeignClusters(), fc, wanted)
	if apierrors.IsNotFound(err) {
		return nil
	}
	before := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionNetworking)
	if err != nil || !changed || v.reason == "" || before != nil && before.Reason == v.reason {
		return err
	}
	kind := corev1.EventTypeNormal
	if v.phase == v1alpha1.PeeringError {
		kind = corev1.EventTypeWarning
	}
	r.Events.Event(fc, kind, v.reason, v.message)
	return nil
}
