// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/probe"
)

// The latency in the status is updated when the measured latency differs by a fifth (1/latencyShare) and by at
// least latencyLeast, which limits the number of writes.
const (
	latencyShare = 5
	latencyLeast = 250 * time.Microsecond
)

// lossStep is the least change of the loss, in percentage points, that updates the status. A loss of 0 is always
// reported.
const lossStep = 10

// Reasons of the condition Connected of a TunnelEndpoint.
const (
	// reasonReplies means that the peer's gateway answers probes.
	reasonReplies = "GatewayReplies"
	// reasonRefused means that the TunnelEndpoint is refused; the message has the cause. See
	// docs/network-reference.md#refused-peers.
	reasonRefused = "Refused"
	// reasonNotApplied means that the gateway's node could not be set up; the message has the cause.
	reasonNotApplied = "NotApplied"
	// reasonNoEndpoint means that no endpoint of the peer is an address, or a name that resolves. Set the chart value
	// network.endpoints in the peer.
	reasonNoEndpoint = "NoEndpoint"
	// reasonHandshake means that there is no session: UDP is blocked, or one side has an old key. See
	// docs/network-troubleshooting.md#gateways-have-no-connection.
	reasonHandshake = "NoHandshake"
	// reasonNoReply means that there is a session and no answer: the peer's gateway is down, or has other CIDRs.
	// Compare local and remote of the TunnelEndpoints of both clusters.
	reasonNoReply = "NoReply"
	// reasonControl means that the tunnel has no CIDRs and serves the control plane alone.
	reasonControl = "ControlPlaneOnly"
)

// Reasons of the condition PathMTU of a TunnelEndpoint.
const (
	// reasonPass means that probes of the agreed size are answered.
	reasonPass = "PacketsPass"
	// reasonTooLarge means that probes of the agreed size are not answered; routes to the peer use the MTU in
	// status.pathMTU. Set the chart value network.mtu to this MTU, so that no packets are lost until it is measured.
	reasonTooLarge = "PacketsTooLarge"
	// reasonNonePass means that 1280 bytes do not pass, or the peer's version does not answer such probes.
	reasonNonePass = "NoLargePacket"
)

// sessionLife is the lifetime of a WireGuard session. Peers that are alive start a new handshake before its end.
const sessionLife = 3 * time.Minute

// minMTU is the least MTU that the API accepts in the status, in bytes.
const minMTU = 1280

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// observation is the state of a tunnel to one peer.
type observation struct {
	gateway        string
	implementation kernel.Implementation
	// publicKey is the public key of the local tunnel; empty if the tunnel could not be read.
	publicKey string
	// mtu is the size of the largest packet inside of the tunnel that the network of the nodes permits, in bytes.
	mtu int
	// refused is the reason for not serving the peer; empty if it is served.
	refused string
	// leftOut describes the invalid AddressMappings and the invalid addresses in the TunnelReach, which are left out.
	leftOut []string
	// failed is the error of configuring the node; empty if the last attempt succeeded.
	failed string
	// listenError has the errors of servers of the gateway that are not running; empty if all run.
	listenError string
	// unresolved is set if the peer has endpoints, and none of them resolves.
	unresolved bool
	// controlPlaneUp is set if the tunnel is connected and carries nothing but the control plane.
	controlPlaneUp bool
	traffic        kernel.Traffic
	probes         probe.Result
}

// controlOnly reports whether the tunnel has no CIDRs of the peer, so that it carries nothing but the control plane,
// and the peer's gateway cannot be probed.
func controlOnly(te *v1alpha1.TunnelEndpoint) bool { return len(te.Spec.Remote) == 0 }

// recentHandshake reports whether the last handshake was less than sessionLife ago, so that there is a session with the
// peer.
func recentHandshake(t kernel.Traffic, now time.Time) bool {
	return !t.Handshake.IsZero() && now.Sub(t.Handshake) < sessionLife
}

// statusOf returns the new status of a TunnelEndpoint, derived from the current one and an observation. Equal
// observations yield equal statuses.
func statusOf(te *v1alpha1.TunnelEndpoint, f observation, now time.Time) v1alpha1.TunnelEndpointStatus {
	s := *te.Status.DeepCopy()
	s.ObservedGeneration, s.Gateway, s.Implementation = te.Generation, f.gateway, string(f.implementation)
	if f.publicKey != "" {
		s.PublicKey = f.publicKey
	}
	// The API accepts no MTU below the minimum of IPv6.
	if s.MTU = 0; f.mtu >= minMTU {
		s.MTU = int32(f.mtu)
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, ObservedGeneration: te.Generation,
		LastTransitionTime: metav1.NewTime(now),
	}
	s.Phase = v1alpha1.TunnelConnecting
	switch {
	case f.refused != "":
		s.Phase = v1alpha1.TunnelError
		condition.Reason, condition.Message = reasonRefused, "The peer is not served: "+f.refused
	case f.probes.Connected:
		s.Phase = v1alpha1.TunnelConnected
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonReplies
		condition.Message = "The remote gateway replies through the tunnel."
	case f.failed == "" && f.controlPlaneUp:
		s.Phase = v1alpha1.TunnelConnected
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonControl
		condition.Message = "The handshake with the remote gateway succeeded, and the tunnel carries the control plane " +
			"only: it has no CIDRs."
	case f.failed != "":
		condition.Reason, condition.Message = reasonNotApplied, "Configuring the gateway's node failed: "+f.failed
	case f.unresolved:
		condition.Reason = reasonNoEndpoint
		condition.Message = "None of the peer's endpoints is an IP address or a name that resolves."
	case f.traffic.Handshake.IsZero():
		condition.Reason = reasonHandshake
		condition.Message = "No handshake has succeeded yet: one of the gateways must reach the other one by UDP, " +
			"and both must have the other's public key."
	default:
		condition.Reason = reasonNoReply
		condition.Message = "The handshake succeeded, but the remote gateway does not reply through the tunnel."
	}
	if len(f.leftOut) > 0 && f.refused == "" {
		condition.Message += " Left out: " + strings.Join(f.leftOut, "; ")
	}
	if f.listenError != "" {
		condition.Message += " Servers that are not running: " + f.listenError
	}
	condition.Message = truncate(condition.Message, maxMessage)
	meta.SetStatusCondition(&s.Conditions, condition)
	if f.probes.Connected && f.probes.PathMTUKnown {
		path := pathOf(f.probes)
		path.ObservedGeneration, path.LastTransitionTime = te.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&s.Conditions, path)
		switch passes := f.probes.PathMTU; {
		case passes >= f.probes.MTU:
			s.PathMTU = 0
		case passes > 0:
			s.PathMTU = int32(passes)
		}
	}

	s.Endpoint = ""
	if !f.traffic.Handshake.IsZero() && f.traffic.Endpoint.IsValid() && f.refused == "" {
		s.Endpoint = f.traffic.Endpoint.String()
	}
	s.LatencyMicroseconds = latency(
		time.Duration(te.Status.LatencyMicroseconds)*time.Microsecond,
		f.probes.Latency,
	).Microseconds()
	s.LossPercent = loss(te.Status.LossPercent, int32(f.probes.Loss))
	return s
}

// loss returns the loss to report, in percent: the measured loss if it is 0 or differs from the reported one by
// lossStep or more, and otherwise the reported one.
func loss(reported, measured int32) int32 {
	if measured == 0 || max(reported-measured, measured-reported) >= lossStep {
		return measured
	}
	return reported
}

// pathOf returns the condition PathMTU for the result of probing a peer.
func pathOf(probes probe.Result) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionPathMTU, Status: metav1.ConditionTrue, Reason: reasonPass}
	switch probes.PathMTU {
	case probes.MTU:
		c.Message = fmt.Sprintf("Packets of %d bytes reach the remote gateway and back.", probes.MTU)
	case 0:
		c.Status, c.Reason = metav1.ConditionUnknown, reasonNonePass
		c.Message = "Small packets reach the remote gateway and back, but none of 1280 bytes or more does: " +
			"the path drops larger ones, or the remote gateway is of a version that does not reply to them."
	default:
		c.Status, c.Reason = metav1.ConditionFalse, reasonTooLarge
		c.Message = fmt.Sprintf(
			"Packets of the agreed size of %d bytes are lost on the path to the remote gateway or back. "+
				"The largest packets that pass have %d bytes, and the gateway sends no larger ones.",
			probes.MTU,
			probes.PathMTU,
		)
	}
	return c
}

// latency returns the latency to report: the measured one if it differs from the reported one by latencyLeast and by
// 1/latencyShare or more, or if one of them is 0, and otherwise the reported one.
func latency(reported, measured time.Duration) time.Duration {
	off := (measured - reported).Abs()
	if reported == 0 || measured == 0 || off*latencyShare >= reported && off >= latencyLeast {
		return measured
	}
	return reported
}

// truncate shortens a text to at most limit bytes, without splitting a character.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "…"
	end := limit - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
