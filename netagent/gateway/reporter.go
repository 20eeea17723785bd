// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationclient "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// reportTimeout bounds one write of a status.
const reportTimeout = 5 * time.Second

// reporter reports the state of the active gateway's tunnels, in metrics and in the status of TunnelEndpoints. It
// writes a status only if it has changed.
type reporter struct {
	worker  *worker
	client  federationclient.TunnelEndpointInterface
	current func() ([]*v1alpha1.TunnelEndpoint, error)
	metrics *Metrics
	// listeners provide the errors of servers, which are part of the status.
	listeners *listeners
	now       func() time.Time

	before map[string]kernel.Traffic
	// received and sent are the packet counters of the tunnel's link at the previous report.
	received, sent uint64
	active         bool
}

// report updates the metrics and writes the statuses that have changed. It fails if a status cannot be written.
func (r *reporter) report(ctx context.Context) error {
	o := r.worker.outcome()
	if o.active && !r.active {
		r.metrics.takeovers.Inc()
	}
	r.active = o.active
	r.metrics.active.WithLabelValues().Set(value(o.active))
	if !o.active {
		r.deleteStale(nil)
		return nil
	}
	implementation := r.worker.inner.Implementation(model.TunnelLink)
	r.metrics.implementation.Reset()
	if implementation != "" {
		r.metrics.implementation.WithLabelValues(string(implementation)).Set(1)
	}
	// A tunnel that cannot be read is reported like one that cannot be configured.
	traffic, err := r.worker.inner.Traffic(model.TunnelLink)
	if err != nil && o.failed == "" {
		o.failed = err.Error()
	}
	if received, sent, err := r.worker.inner.Packets(model.TunnelLink); err == nil {
		r.metrics.addPackets(r.received, received, r.sent, sent)
		r.received, r.sent = received, sent
	}
	listenError := ""
	if err := r.listeners.Err(); err != nil {
		listenError = err.Error()
	}
	endpoints, err := r.current()
	if err != nil {
		return err
	}
	r.deleteStale(endpoints)
	for _, te := range endpoints {
		f := observation{
			gateway: r.worker.self, implementation: implementation, publicKey: o.publicKey, mtu: o.mtu,
			refused: o.refused[te.Name], leftOut: o.leftOut[te.Name], failed: o.failed, listenError: listenError,
		}
		key, served := o.peers[te.Name]
		if !served && f.refused == "" {
			continue // created after the last pass
		}
		if served {
			f.traffic, f.probes = traffic[key], r.worker.prober.Result(te.Name)
			if f.traffic.Handshake.After(r.before[te.Name].Handshake) {
				r.worker.prober.MarkReachable(te.Name)
			}
			newKey := o.publicKey != "" && te.Status.PublicKey != "" && te.Status.PublicKey != o.publicKey
			if !f.probes.Known && !controlOnly(te) && te.Status.Phase == v1alpha1.TunnelConnected && !newKey {
				continue // not measured yet since this process started
			}
			f.controlPlaneUp = controlOnly(te) && recentHandshake(f.traffic, r.now())
			at, _ := r.worker.endpoint(te)
			f.unresolved = len(te.Spec.Endpoints) > 0 && !at.IsValid()
		}
		r.measure(te.Name, f)
		if err := r.write(ctx, te, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *reporter) measure(name string, f observation) {
	r.metrics.connected.WithLabelValues(name).Set(value(f.probes.Connected))
	age := -1.0
	if !f.traffic.Handshake.IsZero() {
		age = r.now().Sub(f.traffic.Handshake).Seconds()
	}
	r.metrics.handshakeAge.WithLabelValues(name).Set(age)
	passes := -1
	if f.probes.PathMTUKnown {
		passes = f.probes.PathMTU
	}
	r.metrics.mtu.WithLabelValues(name).Set(float64(f.probes.MTU))
	r.metrics.pathMTU.WithLabelValues(name).Set(float64(passes))
	r.metrics.addTraffic(name, r.before[name], f.traffic)
	r.before[name] = f.traffic
}

// write writes a status if it has changed. Conflicts and deleted objects are no error, as the next report follows
// soon.
func (r *reporter) write(ctx context.Context, te *v1alpha1.TunnelEndpoint, f observation) error {
	status := statusOf(te, f, r.now())
	if equality.Semantic.DeepEqual(status, te.Status) {
		return nil
	}
	changed := te.DeepCopy()
	changed.Status = status
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	_, err := r.client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of TunnelEndpoint %s: %w", te.Name, err)
	}
	return nil
}

// deleteStale deletes the state and the metrics of peers without a TunnelEndpoint.
func (r *reporter) deleteStale(endpoints []*v1alpha1.TunnelEndpoint) {
	there := make(map[string]bool, len(endpoints))
	for _, te := range endpoints {
		there[te.Name] = true
	}
	for name := range r.before {
		if !there[name] {
			delete(r.before, name)
			r.metrics.deletePeer(name)
		}
	}
}

func value(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
