// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"k8s.io/component-base/metrics"

	"liqo.io/federation/netagent/kernel"
)

// Metrics are those of a gateway. Peers are told apart by the names of their
// TunnelEndpoints.
type Metrics struct {
	active, implementation            *metrics.GaugeVec
	takeovers                         *metrics.Counter
	connected, handshakeAge           *metrics.GaugeVec
	mtu, pathMTU                      *metrics.GaugeVec
	received, sent, answered, unheard *metrics.CounterVec
	packetsReceived, packetsSent      *metrics.Counter
	latency                           *metrics.HistogramVec
}

// NewMetrics makes the metrics and registers each with the function given.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	peer := []string{"peer"}
	gauge := func(subsystem, name, help string, labels []string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "liqo", Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, labels)
	}
	counter := func(name, help string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "tunnel", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, peer)
	}
	m := &Metrics{
		active:         gauge("gateway", "active", "1 on the gateway that the traffic goes through, 0 on one that stands by.", nil),
		implementation: gauge("gateway", "wireguard", "1 for who does WireGuard's work: kernel or wireguard-go.", []string{"implementation"}),
		takeovers: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "gateway", Name: "takeovers_total",
			Help: "Times that this gateway became the active one.", StabilityLevel: metrics.ALPHA,
		}),
		connected:    gauge("tunnel", "connected", "1 while a peer's gateway answers through the tunnel, else 0.", peer),
		handshakeAge: gauge("tunnel", "handshake_age_seconds", "Time since keys were last agreed upon with a peer; -1 before the first time.", peer),
		mtu:          gauge("tunnel", "mtu_bytes", "What a packet to a peer may measure inside of the tunnel.", peer),
		pathMTU:      gauge("tunnel", "path_mtu_bytes", "The largest packet that reaches a peer's gateway and comes back, up to liqo_tunnel_mtu_bytes; 0 if none of 1280 bytes or more does, -1 before it is known.", peer),
		received:     counter("received_bytes_total", "Bytes that came out of the tunnel from a peer."),
		sent:         counter("sent_bytes_total", "Bytes that went into the tunnel to a peer."),
		packetsReceived: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "tunnel", Name: "received_packets_total",
			Help: "Packets that came out of the tunnels, of all peers.", StabilityLevel: metrics.ALPHA,
		}),
		packetsSent: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "tunnel", Name: "sent_packets_total",
			Help: "Packets that went into the tunnels, to all peers.", StabilityLevel: metrics.ALPHA,
		}),
		answered: counter("probes_answered_total", "Probes that a peer has answered."),
		unheard:  counter("probes_lost_total", "Probes that a peer has not answered in time."),
		latency: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: "liqo", Subsystem: "tunnel", Name: "latency_seconds",
			Help:           "Time from a probe to its answer through the tunnel.",
			Buckets:        []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
			StabilityLevel: metrics.ALPHA,
		}, peer),
	}
	for _, one := range []metrics.Registerable{m.active, m.implementation, m.takeovers, m.connected, m.handshakeAge, m.mtu, m.pathMTU,
		m.received, m.sent, m.packetsReceived, m.packetsSent, m.answered, m.unheard, m.latency} {
		if err := register(one); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Answered counts an answer of a peer.
func (m *Metrics) Answered(peer string, took time.Duration) {
	m.answered.WithLabelValues(peer).Inc()
	m.latency.WithLabelValues(peer).Observe(took.Seconds())
}

// Lost counts a probe without an answer.
func (m *Metrics) Lost(peer string) { m.unheard.WithLabelValues(peer).Inc() }

// carried adds what went through the tunnel since it was last looked at. The
// kernel counts anew when a peer is added anew.
func (m *Metrics) carried(peer string, before, now kernel.Traffic) {
	m.received.WithLabelValues(peer).Add(since(before.Received, now.Received))
	m.sent.WithLabelValues(peer).Add(since(before.Sent, now.Sent))
}

// packets adds what all of it was in packets. They are counted anew when the link
// is made anew.
func (m *Metrics) packets(receivedBefore, received, sentBefore, sent uint64) {
	m.packetsReceived.Add(since(receivedBefore, received))
	m.packetsSent.Add(since(sentBefore, sent))
}

// since is what was counted between two looks.
func since(before, now uint64) float64 {
	if now < before {
		return float64(now)
	}
	return float64(now - before)
}

// forget removes the series of a peer that is gone.
func (m *Metrics) forget(peer string) {
	for _, one := range []interface{ DeleteLabelValues(...string) bool }{m.connected, m.handshakeAge, m.mtu, m.pathMTU, m.received, m.sent, m.answered, m.unheard} {
		one.DeleteLabelValues(peer)
	}
	m.latency.DeleteLabelValues(peer)
}
