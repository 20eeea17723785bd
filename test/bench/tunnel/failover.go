// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/fakes"
	"liqo.io/federation/test/netns/world"
)

const (
	// failoverBudget is the maximal time without an answered packet, in seconds.
	failoverBudget = 3.0
	// beat is the interval of packets.
	beat = 10 * time.Millisecond
	// steady is the time in which all packets have to be answered before a failure is over.
	steady = time.Second
)

// failures are the measured failures of rome's active gateway.
var failures = []struct {
	name   string
	happen func(context.Context, *fabric) error
	// undo ends the failure, so that the first gateway can become active again. It is nil if there
	// is only one gateway.
	undo func(context.Context, *fabric) error
}{
	{
		"gateway killed",
		func(_ context.Context, f *fabric) error { return f.kill() },
		func(ctx context.Context, f *fabric) error { return f.startGateway(ctx, f.Rome, f.Rome.Nodes[0]) },
	},
	{
		"gateway's node cut off",
		func(_ context.Context, f *fabric) error { return world.IP(f.Wire, "link set rome-1 down") },
		func(_ context.Context, f *fabric) error { return world.IP(f.Wire, "link set rome-1 up") },
	},
	{"only gateway restarted", func(ctx context.Context, f *fabric) error { return f.restart(ctx) }, nil},
}

// measureFailover measures how long packets between a pod on rome and a pod on milan are lost.
// Neither pod is on the node of an active gateway.
func measureFailover(ctx context.Context, o options) (rows []row, err error) {
	f := &fabric{}
	if err := f.start(ctx, world.Options{Iptables: "nft"}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	for _, m := range failures {
		var gaps figures.Series
		for run := range o.runs {
			if m.undo != nil {
				if err := f.another(ctx); err != nil {
					return nil, err
				}
			}
			gap, err := f.gap(ctx, m.happen)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			progress("run %d, %s: %s", run+1, m.name, gap.Round(time.Millisecond))
			gaps = append(gaps, gap.Seconds())
			if m.undo == nil {
				continue
			}
			if err := f.connected(ctx, f.rome, "milan", "rome-2"); err != nil {
				return nil, err
			}
			// The first gateway becomes standby, and active when the second one stops.
			if err := m.undo(ctx, f); err != nil {
				return nil, err
			}
			if err := f.isStandby(ctx, f.Rome.Nodes[0]); err != nil {
				return nil, err
			}
			if err := f.gateways["rome-2"].Stop(); err != nil {
				return nil, err
			}
			if err := f.connected(ctx, f.rome, "milan", "rome-1"); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row{m.name + ": longest gap at 100 packets per second", "–", gaps.Format(" s"), "–",
			figures.AtMost(gaps.Median(), failoverBudget, " s")})
	}
	return rows, nil
}

// kill ends the active gateway as a crash does: the Lease is not released, and the tunnel is gone.
func (f *fabric) kill() error {
	n := f.Rome.Nodes[0]
	var dead atomic.Bool
	dead.Store(true)
	fakes.React(f.rome.Kube, "update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if who := lease.Spec.HolderIdentity; dead.Load() && (who == nil || *who == "") {
			return true, nil, errors.New("the gateway has crashed")
		}
		return false, nil, nil
	})
	defer dead.Store(false)
	// A running agent would create the tunnel again, so it is stopped first.
	_ = f.gateways[n.Name].Stop() // it fails, because the Lease cannot be released
	return n.Inner.DeleteLink(model.TunnelLink)
}

// restart stops the only gateway, deletes its tunnel, and starts the gateway again.
func (f *fabric) restart(ctx context.Context) error {
	n := f.Rome.Nodes[0]
	if err := f.gateways[n.Name].Stop(); err != nil {
		return err
	}
	if err := n.Inner.DeleteLink(model.TunnelLink); err != nil {
		return err
	}
	return f.startGateway(ctx, f.Rome, n)
}

// another starts a second gateway, and waits until it is standby.
func (f *fabric) another(ctx context.Context) error {
	n := f.Rome.Nodes[1]
	if err := f.startGateway(ctx, f.Rome, n); err != nil {
		return err
	}
	return f.isStandby(ctx, n)
}

// isStandby waits until the gateway on a node is configured and has no peers.
func (f *fabric) isStandby(ctx context.Context, n *world.Node) error {
	return eventually(ctx, "the gateway on "+n.Name+" is standby", func() (bool, error) {
		done, err := f.gateways[n.Name].Passes()
		if err != nil || done == 0 {
			return false, err
		}
		tunnel, err := n.Inner.Tunnel(model.TunnelLink)
		return err == nil && tunnel.Port == world.Port && len(tunnel.Peers) == 0, nil
	})
}

// gap returns the longest time without an answer from before a failure until packets are answered
// steadily again.
func (f *fabric) gap(ctx context.Context, happen func(context.Context, *fabric) error) (time.Duration, error) {
	traffic := flow{from: f.Rome.Nodes[1].Pod, to: f.Milan.Nodes[1].Pod, address: milanPod}
	var server net.PacketConn
	if err := traffic.to.Do(func() (err error) {
		server, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", packetPort))
		return err
	}); err != nil {
		return 0, err
	}
	defer server.Close()
	go answer(server)
	conn, err := traffic.dial(ctx, "udp", packetPort)
	if err != nil {
		return 0, err
	}
	b := &beats{}
	var beating sync.WaitGroup
	defer beating.Wait()
	defer conn.Close()
	beating.Go(func() { b.listen(conn) })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beating.Go(func() { b.send(ctx, conn) })
	if err := b.steadily(ctx); err != nil {
		return 0, err
	}
	b.reset()
	if err := happen(ctx, f); err != nil {
		return 0, err
	}
	// A failure may take effect with a delay.
	if err := wait(ctx, 500*time.Millisecond, nil); err != nil {
		return 0, err
	}
	err = b.steadily(ctx)
	return b.longest(), err
}

// beats records when packets, which are sent periodically, are answered.
type beats struct {
	mu           sync.Mutex
	last, steady time.Time
	gap          time.Duration
}

func (b *beats) send(ctx context.Context, conn net.Conn) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	message := make([]byte, small)
	for {
		_, _ = conn.Write(message) // an error counts as an unanswered packet
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (b *beats) listen(conn net.Conn) {
	buffer := make([]byte, small)
	for {
		_, err := conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the error of a received ICMP message
		}
		b.answered(time.Now())
	}
}

func (b *beats) answered(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := now.Sub(b.last)
	if !b.last.IsZero() {
		b.gap = max(b.gap, since)
	}
	if since > 10*beat {
		b.steady = now
	}
	b.last = now
}

// steadily waits until all packets have been answered for the time steady.
func (b *beats) steadily(ctx context.Context) error {
	return eventually(ctx, "packets are answered without a gap", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return !b.last.IsZero() && time.Since(b.last) < 10*beat && b.last.Sub(b.steady) > steady, nil
	})
}

func (b *beats) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gap = 0
}

func (b *beats) longest() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gap
}
