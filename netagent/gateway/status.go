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

// The latency in the status follows the one that is measured when it is off by
// a fifth, and by more than what nobody would feel.
const (
	latencyShare = 5
	latencyLeast = 250 * time.Microsecond
)

// lossStep is how far the loss in the status may be from the one that is measured,
// in percent. Where none is lost it says so.
const lossStep = 10

// Reasons of the conditions Connected and PathMTU.
const (
	reasonAnswers    = "GatewayAnswers"
	reasonRefused    = "Refused"
	reasonNotApplied = "NotApplied"
	reasonNoEndpoint = "NoEndpoint"
	reasonHandshake  = "NoHandshake"
	reasonNoAnswer   = "NoAnswer"
	reasonControl    = "ControlPlaneOnly"

	reasonPass     = "PacketsPass"
	reasonTooLarge = "PacketsTooLarge"
	reasonNonePass = "NoLargePacket"
)

// sessionLife is how long keys are good for that two gateways have agreed upon;
// others follow before that, as long as both are there.
const sessionLife = 3 * time.Minute

// leastMTU is the least that the status may tell, in bytes.
const leastMTU = 1280

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// facts are what a gateway knows of a peer.
type facts struct {
	gateway        string
	implementation kernel.Implementation
	// publicKey is the one that our tunnel has; empty: it is not known.
	publicKey string
	// mtu is the most that a packet may measure inside of the tunnel by our node's
	// network.
	mtu int
	// refused tells why the peer is not served; empty: it is.
	refused string
	// leftOut is what of it is not served.
	leftOut []string
	// failed is why the last pass has failed; empty: it has not.
	failed string
	// unheard is whom the gateway cannot listen for, and why; empty: it can for
	// all. It serves its peers all the same.
	unheard string
	// lost tells that the peer has endpoints, and that none of them leads
	// anywhere.
	lost bool
	// alone tells that the tunnel carries the control plane alone, and that the
	// other gateway is there.
	alone   bool
	traffic kernel.Traffic
	probes  probe.Result
}

// controlOnly tells whether a tunnel carries the control plane alone. There is
// nobody to probe yet.
func controlOnly(te *v1alpha1.TunnelEndpoint) bool { return len(te.Spec.Remote) == 0 }

// heard tells whether the other gateway was there not long ago.
func heard(t kernel.Traffic, now time.Time) bool {
	return !t.Handshake.IsZero() && now.Sub(t.Handshake) < sessionLife
}

// statusOf is the status of a TunnelEndpoint, made of the one before and of
// facts. The same facts make the same status.
func statusOf(te *v1alpha1.TunnelEndpoint, f facts, now time.Time) v1alpha1.TunnelEndpointStatus {
	s := *te.Status.DeepCopy()
	s.ObservedGeneration, s.Gateway, s.Implementation = te.Generation, f.gateway, string(f.implementation)
	if f.publicKey != "" {
		s.PublicKey = f.publicKey
	}
	// Less than every link of IPv6 takes cannot be agreed upon.
	if s.MTU = 0; f.mtu >= leastMTU {
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
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reasonAnswers, "The other gateway answers through the tunnel."
	case f.failed == "" && f.alone:
		s.Phase = v1alpha1.TunnelConnected
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonControl
		condition.Message = "Keys were agreed upon with the other gateway, and the tunnel carries the control plane. What else it is to carry is not agreed upon yet."
	case f.failed != "":
		condition.Reason, condition.Message = reasonNotApplied, "The gateway's node could not be set up: "+f.failed
	case f.lost:
		condition.Reason, condition.Message = reasonNoEndpoint, "None of the peer's endpoints is an address or a name that resolves."
	case f.traffic.Handshake.IsZero():
		condition.Reason, condition.Message = reasonHandshake, "No keys were agreed upon yet: one of the gateways has to reach the other one by UDP, and each to know the other's public key."
	default:
		condition.Reason, condition.Message = reasonNoAnswer, "Keys were agreed upon, and the other gateway does not answer through the tunnel."
	}
	if len(f.leftOut) > 0 && f.refused == "" {
		condition.Message += " Left out: " + strings.Join(f.leftOut, "; ")
	}
	if f.unheard != "" {
		condition.Message += " What the gateway does without: " + f.unheard
	}
	condition.Message = cut(condition.Message, maxMessage)
	meta.SetStatusCondition(&s.Conditions, condition)
	if f.probes.Connected && f.probes.PathKnown {
		path := pathOf(f.probes)
		path.ObservedGeneration, path.LastTransitionTime = te.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&s.Conditions, path)
		switch passes := f.probes.Passes; {
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
	s.LatencyMicroseconds = latency(time.Duration(te.Status.LatencyMicroseconds)*time.Microsecond, f.probes.Latency).Microseconds()
	s.LossPercent = loss(te.Status.LossPercent, int32(f.probes.Loss))
	return s
}

// loss is the one to tell, after the one that was told and with the one that is
// measured.
func loss(told, measured int32) int32 {
	if measured == 0 || max(told-measured, measured-told) >= lossStep {
		return measured
	}
	return told
}

// pathOf is the condition PathMTU that probes tell.
func pathOf(probes probe.Result) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionPathMTU, Status: metav1.ConditionTrue, Reason: reasonPass}
	switch probes.Passes {
	case probes.MTU:
		c.Message = fmt.Sprintf("Packets of %d bytes reach the other gateway and come back.", probes.MTU)
	case 0:
		c.Status, c.Reason = metav1.ConditionUnknown, reasonNonePass
		c.Message = "Small packets reach the other gateway and come back, and none of 1280 bytes or more does: the way takes no larger ones, or the other gateway is of a version that does not answer them."
	default:
		c.Status, c.Reason = metav1.ConditionFalse, reasonTooLarge
		c.Message = fmt.Sprintf("Packets of %d bytes, as was agreed upon, are lost on the way to the other gateway or back. The largest that pass have %d, and no larger ones are sent.",
			probes.MTU, probes.Passes)
	}
	return c
}

// latency is the one to tell, after the one that was told and with the one that
// is measured.
func latency(told, measured time.Duration) time.Duration {
	off := (measured - told).Abs()
	if told == 0 || measured == 0 || off*latencyShare >= told && off >= latencyLeast {
		return measured
	}
	return told
}

// cut shortens a text to so many bytes, between characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = "…"
	end := most - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
