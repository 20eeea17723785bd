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

// listenRetry is how soon it is tried again to listen where that has failed.
const listenRetry = 5 * time.Second

// listeners are whom a gateway listens for, beside its passes. One that it cannot
// listen for keeps it from nothing else.
type listeners struct {
	mu      sync.Mutex
	failing map[string]error // by whom
}

// keep listens for somebody and serves until the context ends. What fails is told
// by Err, and tried again.
func (l *listeners) keep(ctx context.Context, whom string, listen func(context.Context) (serve func() error, err error)) {
	every(ctx, listenRetry, nil, func(ctx context.Context) {
		serve, err := listen(ctx)
		if err == nil {
			l.note(whom, nil)
			err = serve()
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("listening for %s: %w", whom, err)
			klog.FromContext(ctx).Error(err, "The gateway does without it for now")
			l.note(whom, err)
		}
	})
	l.note(whom, nil)
}

func (l *listeners) note(whom string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, whom)
		return
	}
	if l.failing == nil {
		l.failing = make(map[string]error)
	}
	l.failing[whom] = err
}

// Err tells whom the gateway cannot listen for, in one line; nil if there is
// nobody.
func (l *listeners) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, whom := range slices.Sorted(maps.Keys(l.failing)) {
		all = append(all, l.failing[whom].Error())
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// portTaken adds what to do to an error of listening at a port of the node. Where
// there is a setting of the port it is named.
func portTaken(err error, protocol string, port int, setting string) error {
	if !errors.Is(err, unix.EADDRINUSE) {
		return err
	}
	text := fmt.Sprintf("%s port %d of this node is somebody else's, ss -l%snp tells whose: free it", strings.ToUpper(protocol), port, protocol[:1])
	if setting != "" {
		text += ", or choose another " + setting + " in the values of the chart"
	}
	return fmt.Errorf("%w: %s", err, text)
}

// beacon answers the other gateways of this cluster.
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
		return nil, portTaken(err, "udp", probe.BeaconPort, "")
	}
	return func() error { return probe.Beacon(ctx, conn, g.keys.keys, g.loop.Healthy) }, nil
}

// probes asks the gateways of peers. There is no IPv6 where pods have none.
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

// echo answers the gateways of peers, by one family.
func (g *Gateway) echo(network string) func(context.Context) (func() error, error) {
	return func(ctx context.Context) (serve func() error, err error) {
		conn, err := g.inside(network, model.EchoPort)
		if err != nil {
			return nil, err
		}
		return func() error { return g.worker.echo.Serve(ctx, conn, network == "udp6") }, nil
	}
}

// inside listens within the gateway's namespace.
func (g *Gateway) inside(network string, port int) (conn net.PacketConn, err error) {
	err = g.inner.Do(func() (err error) { conn, err = net.ListenPacket(network, ":"+strconv.Itoa(port)); return err })
	return conn, err
}

func (g *Gateway) hasIPv6() bool {
	// Listing a cache fails only with a selector that cannot be read.
	o, _ := g.sources.Objects()
	return slices.ContainsFunc(o.Ranges.Pods, func(p netip.Prefix) bool { return p.Addr().Is6() })
}
