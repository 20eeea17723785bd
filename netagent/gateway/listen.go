// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

// listenRetry is the delay after a server failed.
const listenRetry = 5 * time.Second

// listeners run the servers of a gateway. A failed server makes the gateway not ready, and has no other effect.
type listeners struct {
	mu      sync.Mutex
	failing map[string]error // by the client that the server is for
}

// run listens and serves until the context ends. It retries after a failure, and Err returns the failure meanwhile,
// with client as the description of the clients that the server is for.
func (l *listeners) run(
	ctx context.Context,
	client string,
	listen func(context.Context) (serve func() error, err error),
) {
	every(ctx, listenRetry, nil, func(ctx context.Context) {
		serve, err := listen(ctx)
		if err == nil {
			l.setError(client, nil)
			err = serve()
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("listening for %s: %w", client, err)
			klog.FromContext(ctx).Error(err, "Serving failed, retrying")
			l.setError(client, err)
		}
	})
	l.setError(client, nil)
}

func (l *listeners) setError(client string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, client)
		return
	}
	if l.failing == nil {
		l.failing = make(map[string]error)
	}
	l.failing[client] = err
}

// Err returns the current failures in one line; nil if there are none.
func (l *listeners) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, client := range slices.Sorted(maps.Keys(l.failing)) {
		all = append(all, l.failing[client].Error())
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// withPortHint adds to an error of listening, if the port is in use, how to free the port. Setting is the chart
// value that sets the port; empty if no value does.
func withPortHint(err error, protocol string, port int, setting string) error {
	if !errors.Is(err, unix.EADDRINUSE) {
		return err
	}
	text := fmt.Sprintf(
		"%s port %d of this node is in use by the process that ss -l%snp shows: free it",
		strings.ToUpper(protocol),
		port,
		protocol[:1],
	)
	if setting != "" {
		text += ", or set " + setting + " in the values of the chart to another port"
	}
	return fmt.Errorf("%w: %s", err, text)
}

// beacon opens the socket at which the other gateways of the local cluster probe this one, and returns the function
// that replies to them.
func (g *Gateway) beacon(ctx context.Context) (serve func() error, err error) {
	self, err := g.address(g.options.NodeName)
	if err != nil {
		return nil, err
	}
	var conn net.PacketConn
	err = g.outer.Do(func() (err error) {
		conn, err = net.ListenPacket("udp", netip.AddrPortFrom(self, probe.BeaconPort).String())
		return err
	})
	if err != nil {
		return nil, withPortHint(err, "udp", probe.BeaconPort, "")
	}
	return func() error { return probe.Beacon(ctx, conn, g.keys.sharedKeys, g.loop.Healthy) }, nil
}

// probes opens the sockets from which this gateway probes peers, and returns the function that probes them. There is no
// IPv6 socket if pods have no IPv6.
func (g *Gateway) probes(ctx context.Context) (serve func() error, err error) {
	var conn4, conn6 net.PacketConn
	if conn4, err = g.inside("udp4", 0); err != nil {
		return nil, err
	}
	if g.hasIPv6() {
		if conn6, err = g.inside("udp6", 0); err != nil {
			return nil, errors.Join(err, conn4.Close())
		}
	}
	return func() error { return g.worker.prober.Run(ctx, conn4, conn6, g.options.ProbeInterval) }, nil
}

// echo returns a function that opens the socket at which the gateways of peers probe this one, in the address family of
// network (udp4 or udp6), and returns the function that replies to them.
func (g *Gateway) echo(network string) func(context.Context) (func() error, error) {
	return func(ctx context.Context) (serve func() error, err error) {
		conn, err := g.inside(network, model.EchoPort)
		if err != nil {
			return nil, err
		}
		return func() error { return g.worker.echo.Serve(ctx, conn, network == "udp6") }, nil
	}
}

// inside opens a UDP socket in the gateway's network namespace.
func (g *Gateway) inside(network string, port int) (conn net.PacketConn, err error) {
	err = g.inner.Do(func() (err error) { conn, err = net.ListenPacket(network, ":"+strconv.Itoa(port)); return err })
	return conn, err
}

func (g *Gateway) hasIPv6() bool {
	return slices.ContainsFunc(g.sources.Ranges().Pods, func(p netip.Prefix) bool { return p.Addr().Is6() })
}
