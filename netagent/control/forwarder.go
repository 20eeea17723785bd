// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sync/semaphore"
	"k8s.io/klog/v2"
)

// maxDials bounds the connections to the API server that are being made: each
// takes a thread, however long that server does not answer.
const maxDials = 64

// Forwarder lets peers reach this cluster's API server, and nothing else. Who
// a peer is, its control address tells: WireGuard drops what is not from there.
type Forwarder struct {
	// Dial connects to this cluster's own API server.
	Dial func(ctx context.Context) (net.Conn, error)

	lines lines
	// dials bounds the connections that are being made.
	dials *semaphore.Weighted
}

// NewForwarder makes a forwarder that serves nobody yet.
func NewForwarder(dial func(ctx context.Context) (net.Conn, error)) *Forwarder {
	return &Forwarder{Dial: dial, lines: lines{ofPeer: maxOfPeer, ofAll: maxOfAll}, dials: semaphore.NewWeighted(maxDials)}
}

// Allow says which peers are served, by their control addresses. The
// connections of others end.
func (f *Forwarder) Allow(peers []netip.Addr) { f.lines.allow(peers) }

// Serve takes connections until the context ends, and closes the listener.
func (f *Forwarder) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	defer f.Allow(nil)
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		var passing net.Error
		switch {
		case errors.As(err, &passing) && passing.Timeout():
		case err != nil:
			return fmt.Errorf("taking connections of peers: %w", err)
		default:
			go f.forward(ctx, conn)
		}
	}
}

func (f *Forwarder) forward(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return
	}
	leave, err := f.lines.enter(from.Addr().Unmap(), conn)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("A peer's connection is not taken", "from", from.Addr(), "reason", err.Error())
		return
	}
	defer leave()
	dialing, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	server, err := f.dial(dialing)
	if err != nil {
		klog.FromContext(ctx).Error(err, "This cluster's API server was not reached for a peer", "from", from.Addr())
		return
	}
	join(conn, server)
}

func (f *Forwarder) dial(ctx context.Context) (net.Conn, error) {
	if err := f.dials.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("%d connections are being made already: %w", maxDials, err)
	}
	defer f.dials.Release(1)
	return f.Dial(ctx)
}
