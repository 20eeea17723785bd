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

// maxDials bounds concurrent dials of the API server, as each of them blocks a thread until the API server
// responds.
const maxDials = 64

// Forwarder forwards connections of peers to the local API server. It identifies a peer by the control address
// that its connections come from: WireGuard drops packets with any other source address.
type Forwarder struct {
	// Dial connects to the local API server.
	Dial func(ctx context.Context) (net.Conn, error)

	connections connections
	// dials bounds concurrent dials.
	dials *semaphore.Weighted
}

// NewForwarder returns a forwarder without any peers.
func NewForwarder(dial func(ctx context.Context) (net.Conn, error)) *Forwarder {
	return &Forwarder{
		Dial:        dial,
		connections: connections{maxPerPeer: maxPerPeer, maxTotal: maxTotal},
		dials:       semaphore.NewWeighted(maxDials),
	}
}

// Allow sets the peers that are served, by the addresses of their gateways inside the tunnels (model.ControlAddress),
// and closes the connections of all other peers.
func (f *Forwarder) Allow(peers []netip.Addr) { f.connections.allow(peers) }

// Serve accepts connections until the context ends, and closes the listener. It fails if a connection cannot be
// accepted.
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
			return fmt.Errorf("accepting connections of peers: %w", err)
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
	remove, err := f.connections.add(from.Addr().Unmap(), conn)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Peer's connection is rejected", "from", from.Addr(), "reason", err.Error())
		return
	}
	defer remove()
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	server, err := f.dial(dialing)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Connecting to the local API server for a peer failed", "from", from.Addr())
		return
	}
	pipe(conn, server)
}

func (f *Forwarder) dial(ctx context.Context) (net.Conn, error) {
	if err := f.dials.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for one of %d concurrent dials: %w", maxDials, err)
	}
	defer f.dials.Release(1)
	return f.Dial(ctx)
}
