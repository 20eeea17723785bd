// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the conditions Networking of a ForeignCluster and Accepted of a NetworkConfig.
const (
	// ReasonConnected means that the tunnel is connected; unless networking is Tunnel, it carries the control plane
	// only.
	ReasonConnected = "Connected"
	// ReasonConnecting means that the gateways have no connection; the message is the gateway's. See
	// docs/network-troubleshooting.md.
	ReasonConnecting = "Connecting"
	// ReasonTunnelFailing means that the gateway cannot set up the tunnel; the message is the gateway's. See
	// docs/network-troubleshooting.md.
	ReasonTunnelFailing = "TunnelFailing"
	// ReasonAwaitingPeering means that networking is Tunnel, and no direction of the peering is established, so that the
	// tunnel carries at most the control plane.
	ReasonAwaitingPeering = "AwaitingPeering"
	// ReasonVersionUnsupported means that the peer's version does not support tunnels. Upgrade the peer.
	ReasonVersionUnsupported = "VersionUnsupported"
	// ReasonAwaitingNetworkConfig means that the peer has not requested a tunnel. Set networking to Tunnel in the peer,
	// too.
	ReasonAwaitingNetworkConfig = "AwaitingNetworkConfig"
	// ReasonAwaitingAnswer means that the peer has not answered the NetworkConfig yet.
	ReasonAwaitingAnswer = "AwaitingAnswer"
	// ReasonNotConfigured means that the ranges of pods are not known. Set network.podCIDRs:
	// docs/network-reference.md#the-ranges-of-a-cluster.
	ReasonNotConfigured = "NotConfigured"
	// ReasonAwaitingGateway means that no local gateway has published its public key yet. Read the gateways' logs.
	ReasonAwaitingGateway = "AwaitingGateway"
	// ReasonKeyInvalid means that the public key that the gateway published is invalid. Delete the ConfigMap
	// federation-gateway.
	ReasonKeyInvalid = "KeyInvalid"
	// ReasonNetworkConfigRefused means that the cluster that reads the NetworkConfig of its peer refuses it; the
	// message has the cause. Correct the settings of the peer, or permit its ranges in network.peerCIDRs.
	ReasonNetworkConfigRefused = "NetworkConfigRefused"
	// ReasonKeysDiffer means that the peer's NetworkConfigs for the two directions have different public keys.
	// If it lasts, disable the direction that is not enabled in the peer.
	ReasonKeysDiffer = "KeysDiffer"
	// ReasonPeerRefuses means that the peer refused the local NetworkConfig; the message has the cause. In the peer's
	// cluster, see the condition Networking of the ForeignCluster of the local cluster.
	ReasonPeerRefuses = "PeerRefuses"
	// ReasonAddressesExhausted means that no range is available to remap CIDRs of the peer. Extend
	// network.poolCIDRs; the allocation is retried each minute.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonAccepted means that the NetworkConfig is accepted.
	ReasonAccepted = "Accepted"
	// ReasonGatewayRefused means that spec.gateway has the public key of the local gateway, or of the gateway
	// of another peer. Correct spec.gateway.
	ReasonGatewayRefused = "GatewayRefused"
	// ReasonGatewayLeaseExpired means that no local gateway renewed its Lease for 40 seconds. Read the gateways' logs.
	ReasonGatewayLeaseExpired = "GatewayLeaseExpired"
)

// controlPlaneOnly is the reason that the gateway sets in the condition Connected of a TunnelEndpoint
// without ranges.
const controlPlaneOnly = "ControlPlaneOnly"

// settleTime is the time that a connected tunnel may be interrupted before the peer's pods count as unreachable, and
// the age that new endpoints of the gateway must have before they are sent to peers. A standby gateway becomes active
// within this time.
const settleTime = 30 * time.Second

// state is the state of the network to a peer, for the condition Networking. The reason is empty if the
// peer needs no tunnel; the condition is removed then.
type state struct {
	phase           v1alpha1.PeeringPhase
	reason, message string
	// latency is the round-trip time of a connected tunnel in microseconds; 0 if it is unknown.
	latency int64
	// unchanged is true for a failure or a wait that leaves an existing tunnel as it is, see whileUnchanged.
	unchanged bool
}

func pending(reason, format string, args ...any) *state {
	return &state{phase: v1alpha1.PeeringPending, reason: reason, message: fmt.Sprintf(format, args...)}
}

func failing(reason, format string, args ...any) *state {
	return &state{phase: v1alpha1.PeeringError, reason: reason, message: fmt.Sprintf(format, args...)}
}

// blocked returns a failed state that leaves an existing tunnel as it is, see whileUnchanged.
func blocked(reason, format string, args ...any) *state {
	s := failing(reason, format, args...)
	s.unchanged = true
	return s
}

// refused returns the state of a peer that does not accept the NetworkConfig of this cluster. A peer without free
// addresses keeps the tunnel that was agreed upon before; otherwise it removes the ranges from its tunnel.
func refused(answer *metav1.Condition) *state {
	s := failing(ReasonPeerRefuses, "The peer refuses the NetworkConfig of this cluster: %s", remote.Text(answer.Message))
	s.unchanged = answer.Reason == ReasonAddressesExhausted
	return s
}

// whileUnchanged returns the state to report while a failure prevents a change of the tunnel. If the failure leaves an
// established tunnel as it is, the state is Established with the reason of the failure: the state Error would cause,
// for example, the deletion of EndpointSlices with pods of the peer.
func (p *pass) whileUnchanged(failed *state, now time.Time, expired bool) *state {
	if !failed.unchanged || p.tunnel == nil || len(p.tunnel.Spec.Remote) == 0 {
		return failed
	}
	current := p.state(now, expired)
	if current.phase != v1alpha1.PeeringEstablished {
		return failed
	}
	return &state{
		phase: current.phase, reason: failed.reason, latency: current.latency, unchanged: true,
		message: failed.message + " The tunnel uses the ranges that were agreed upon before.",
	}
}

// absent returns the state of a peer without a tunnel. intended states that the networking of fc is Tunnel.
func absent(fc *v1alpha1.ForeignCluster, intended bool, directions []direction) *state {
	if !intended || !kit.OutgoingEnabled(fc) && !kit.IncomingEnabled(fc) {
		return &state{phase: v1alpha1.PeeringNone}
	}
	for _, d := range directions {
		if d.phase == v1alpha1.PeeringEstablished && !d.capable {
			return pending(ReasonVersionUnsupported,
				"The peer's version of Liqo Federation does not support tunnels: upgrade it.")
		}
	}
	return pending(ReasonAwaitingPeering, "No direction of the peering is established yet.")
}

// state returns the state of an existing tunnel from the status that the gateway wrote to its
// TunnelEndpoint. expired is true if no gateway of this cluster renews the Lease.
func (p *pass) state(now time.Time, expired bool) *state {
	if expired {
		return pending(ReasonGatewayLeaseExpired, "No gateway of this cluster renewed the Lease %s for %s, "+
			"so the state of TunnelEndpoint %s is unknown: see the logs of the gateway's pods.",
			v1alpha1.GatewayName, leaseTimeout, p.tunnel.Name)
	}
	status := &p.tunnel.Status
	message, left, alone := "the gateway has not reported its state yet", time.Duration(0), false
	if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected); condition != nil {
		alone = condition.Reason == controlPlaneOnly
		message, left = remote.Text(condition.Message), condition.LastTransitionTime.Add(settleTime).Sub(now)
	}
	switch status.Phase {
	case v1alpha1.TunnelConnected:
		if alone {
			break // a tunnel without ranges connects no pods
		}
		// The status may be for an older generation: the previous tunnel is connected until the gateway
		// observes the new spec.
		return &state{phase: v1alpha1.PeeringEstablished, reason: ReasonConnected, message: "The tunnel is connected.",
			latency: status.LatencyMicroseconds}
	case v1alpha1.TunnelError:
		if status.ObservedGeneration >= p.tunnel.Generation {
			return failing(ReasonTunnelFailing, "TunnelEndpoint %s: %s", p.tunnel.Name, message)
		}
	}
	waiting := pending(ReasonConnecting, "TunnelEndpoint %s is not connected: %s", p.tunnel.Name, message)
	if p.unreachable != "" {
		waiting.message += " " + p.unreachable
	}
	if p.fc.Status.Networking == v1alpha1.PeeringEstablished && left > 0 {
		waiting.phase = v1alpha1.PeeringEstablished
		p.after = kit.Sooner(p.after, left)
	}
	return waiting
}

// report writes to the status of the ForeignCluster the state s of the network to the peer, and own, the local
// gateway, which a peer with mode InBand needs; nil with another mode. It emits an event if the reason changed. It
// sets status.networking only if the networking is Tunnel.
func (r *Reconciler) report(
	ctx context.Context, fc *v1alpha1.ForeignCluster, own *v1alpha1.PeeringGateway, s state,
) error {
	wanted := fc.DeepCopy()
	wanted.Status.Gateway = own
	if r.mode(fc) == v1alpha1.NetworkingTunnel {
		wanted.Status.Networking = s.phase
	}
	wanted.Status.LatencyMicroseconds = s.latency
	if s.reason == "" {
		meta.RemoveStatusCondition(&wanted.Status.Conditions, v1alpha1.ConditionNetworking)
	} else {
		status := metav1.ConditionFalse
		if s.reason == ReasonConnected {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&wanted.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionNetworking, Status: status, Reason: s.reason, Message: s.message,
			ObservedGeneration: fc.Generation,
		})
	}
	changed, err := kit.Commit(ctx, r.Client, fc, wanted)
	if apierrors.IsNotFound(err) {
		return nil
	}
	before := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionNetworking)
	if err != nil || !changed || s.reason == "" || before != nil && before.Reason == s.reason {
		return err
	}
	kind := corev1.EventTypeNormal
	if s.phase == v1alpha1.PeeringError || s.unchanged && s.phase == v1alpha1.PeeringEstablished {
		kind = corev1.EventTypeWarning
	}
	r.Events.Event(fc, kind, s.reason, s.message)
	return nil
}
