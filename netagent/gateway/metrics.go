// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"k8s.io/component-base/metrics"

	"liqo.io/federation/netagent/kernel"
)

// Metrics are the metrics of a gateway. The label peer is the name of the TunnelEndpoint.
type Metrics struct {
	active, implementation         *metrics.GaugeVec
	takeovers                      *metrics.Counter
	connected, handshakeAge        *metrics.GaugeVec
	mtu, pathMTU                   *metrics.GaugeVec
	received, sent, answered, lost *metrics.CounterVec
	packetsReceived, packetsSent   *metrics.Counter
	latency                        *metrics.HistogramVec
}

// NewMetrics creates the metrics and registers each of them. It fails if register returns an error.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	peer := []string{"peer"}
	gauge := func(subsystem, name, help string, labels []string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "federation", Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, labels)
	}
	counter := func(name, help string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "tunnel", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, peer)
	}
	m := &Metrics{
		active: gauge("gateway", "active", "1 on the active gateway, 0 on a standby gateway.", nil),
		implementation: gauge(
			"gateway",
			"wireguard",
			"1 for the implementation of WireGuard in use: kernel or wireguard-go.",
			[]string{"implementation"},
		),
		takeovers: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "gateway", Name: "takeovers_total",
			Help: "Times that this gateway became the active one.", StabilityLevel: metrics.ALPHA,
		}),
		connected: gauge("tunnel", "connected", "1 while a peer's gateway replies through the tunnel, 0 otherwise.", peer),
		handshakeAge: gauge(
			"tunnel",
			"handshake_age_seconds",
			"Time since the last handshake with a peer; -1 before the first one.",
			peer,
		),
		mtu: gauge(
			"tunnel",
			"mtu_bytes",
			"Agreed size of the largest packet to a peer inside of the tunnel.",
			peer,
		),
		pathMTU: gauge(
			"tunnel",
			"path_mtu_bytes",
			"Size of the largest packet that reaches a peer's gateway and back, "+
				"up to federation_tunnel_mtu_bytes; 0 if none of 1280 bytes or more does, -1 before it is measured.",
			peer,
		),
		received: counter("received_bytes_total", "Bytes received from a peer through the tunnel."),
		sent:     counter("sent_bytes_total", "Bytes sent to a peer through the tunnel."),
		packetsReceived: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "tunnel", Name: "received_packets_total",
			Help: "Packets received through the tunnels from all peers.", StabilityLevel: metrics.ALPHA,
		}),
		packetsSent: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "tunnel", Name: "sent_packets_total",
			Help: "Packets sent through the tunnels to all peers.", StabilityLevel: metrics.ALPHA,
		}),
		answered: counter("probes_answered_total", "Probes to which the peer replied in time."),
		lost:     counter("probes_lost_total", "Probes to which the peer did not reply in time."),
		latency: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: "federation", Subsystem: "tunnel", Name: "latency_seconds",
			Help:           "Time from a probe to its reply through the tunnel.",
			Buckets:        []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
			StabilityLevel: metrics.ALPHA,
		}, peer),
	}
	for _, one := range []metrics.Registerable{m.active, m.implementation, m.takeovers, m.connected,
		m.handshakeAge, m.mtu, m.pathMTU,
		m.received, m.sent, m.packetsReceived, m.packetsSent, m.answered, m.lost, m.latency} {
		if err := register(one); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Answered records a reply of a peer and its latency.
func (m *Metrics) Answered(peer string, took time.Duration) {
	m.answered.WithLabelValues(peer).Inc()
	m.latency.WithLabelValues(peer).Observe(took.Seconds())
}

// Lost records a probe without a reply.
func (m *Metrics) Lost(peer string) { m.lost.WithLabelValues(peer).Inc() }

// addTraffic adds the increase of a peer's byte counters. The kernel's counters restart when a peer is recreated.
func (m *Metrics) addTraffic(peer string, before, now kernel.Traffic) {
	m.received.WithLabelValues(peer).Add(increase(before.Received, now.Received))
	m.sent.WithLabelValues(peer).Add(increase(before.Sent, now.Sent))
}

// addPackets adds the increase of the packet counters of the tunnel's link, which restart when the link is
// recreated.
func (m *Metrics) addPackets(receivedBefore, received, sentBefore, sent uint64) {
	m.packetsReceived.Add(increase(receivedBefore, received))
	m.packetsSent.Add(increase(sentBefore, sent))
}

// increase returns the increase of a counter, which has restarted if it is less than before.
func increase(before, now uint64) float64 {
	if now < before {
		return float64(now)
	}
	return float64(now - before)
}

// deletePeer deletes all metrics of a peer.
func (m *Metrics) deletePeer(peer string) {
	for _, one := range []interface{ DeleteLabelValues(...string) bool }{
		m.connected, m.handshakeAge, m.mtu, m.pathMTU, m.received, m.sent,
		m.answered, m.lost,
	} {
		one.DeleteLabelValues(peer)
	}
	m.latency.DeleteLabelValues(peer)
}
