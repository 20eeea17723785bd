// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/control"
	"liqo.io/federation/netagent/model"
)

// controlPlane forwards control plane connections through the tunnels: of peers to the local API server, and of
// local controllers to the API servers of peers.
type controlPlane struct {
	gateway   *Gateway
	forwarder *control.Forwarder
	proxy     *control.Proxy
	// publicKey is the public key of the local tunnel, from which the local control address is derived; empty
	// until it is known.
	publicKey string
}

func newControlPlane(g *Gateway) *controlPlane {
	return &controlPlane{
		gateway:   g,
		forwarder: control.NewForwarder(g.dialAPIServer),
		proxy:     control.NewProxy(agent.ControlGuard(g.kube), g.dialPeer),
	}
}

// dialAPIServer connects to the local API server, in the node's network namespace.
func (g *Gateway) dialAPIServer(ctx context.Context) (conn net.Conn, err error) {
	err = g.outer.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", g.options.APIServer)
		return err
	})
	return conn, err
}

// dialPeer connects to the control address of a peer's gateway, from the local control address.
func (g *Gateway) dialPeer(ctx context.Context, to netip.AddrPort) (conn net.Conn, err error) {
	self := model.ControlAddress(g.keys.last().Public())
	err = g.inner.Do(func() (err error) {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(self, 0))}
		conn, err = dialer.DialContext(ctx, "tcp", to.String())
		return err
	})
	return conn, err
}

// run accepts connections of peers while at least one peer may reach the local API server, and connections of local
// controllers while the API server of at least one peer can be reached. A standby gateway accepts neither.
func (c *controlPlane) run(ctx context.Context) {
	var forwarding, proxying server
	every(ctx, reportInterval, nil, func(ctx context.Context) {
		served, reachable := c.peers()
		if c.keyChanged(c.gateway.worker.outcome().publicKey) {
			// The control address has changed, and connections from the previous one are dead.
			c.forwarder.Allow(nil)
			c.proxy.SetClusters(nil)
		}
		c.forwarder.Allow(served)
		c.proxy.SetClusters(reachable)
		options := c.gateway.options
		forwarding.set(ctx, len(served) > 0 && options.APIServer != "", func(ctx context.Context) {
			c.gateway.listeners.run(ctx, "peers that connect to the API server", c.forward)
		})
		proxying.set(ctx, len(reachable) > 0 && options.ControlPort != 0, func(ctx context.Context) {
			c.gateway.listeners.run(ctx, "local controllers", c.serveProxy)
		})
	})
	forwarding.set(ctx, false, nil)
	proxying.set(ctx, false, nil)
}

// keyChanged records a public key and reports whether it differs from the recorded one. It ignores an empty key.
func (c *controlPlane) keyChanged(key string) bool {
	if key == "" || key == c.publicKey {
		return false
	}
	before := c.publicKey
	c.publicKey = key
	return before != ""
}

// peers returns the control addresses of the peers that may reach the local API server (served), and of the peers
// whose API servers can be reached (reachable), by cluster ID. Both are empty on a standby gateway.
func (c *controlPlane) peers() (served []netip.Addr, reachable map[string]netip.Addr) {
	o := c.gateway.worker.outcome()
	reachable = make(map[string]netip.Addr)
	for id, p := range o.control {
		if o.active && p.control.Serve {
			served = append(served, p.address)
		}
		if o.active && p.control.Call {
			reachable[id] = p.address
		}
	}
	return served, reachable
}

func (c *controlPlane) forward(ctx context.Context) (serve func() error, err error) {
	var listener net.Listener
	err = c.gateway.inner.Do(func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp6", ":"+strconv.Itoa(model.ControlPort))
		return err
	})
	if err != nil {
		return nil, err
	}
	return func() error { return c.forwarder.Serve(ctx, listener) }, nil
}

func (c *controlPlane) serveProxy(ctx context.Context) (serve func() error, err error) {
	g := c.gateway
	at, err := g.address(g.options.NodeName)
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	err = g.outer.Do(func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(
			ctx,
			"tcp",
			netip.AddrPortFrom(at, uint16(g.options.ControlPort)).String(),
		)
		return err
	})
	if err != nil {
		return nil, withPortHint(err, "tcp", g.options.ControlPort, "network.gateway.controlPort")
	}
	return func() error {
		return c.proxy.Serve(ctx, listener, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(g.options.CertificateFile, g.options.KeyFile)
			return &certificate, err
		})
	}, nil
}

// server runs a function in the background while it is needed.
type server struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// set starts serve if running is true. Otherwise it stops serve, and waits until serve has returned. It does nothing if
// serve is already in the requested state.
func (s *server) set(ctx context.Context, running bool, serve func(context.Context)) {
	switch {
	case !running && s.cancel != nil:
		s.cancel()
		<-s.done
		s.cancel = nil
	case running && s.cancel == nil:
		var serving context.Context
		serving, s.cancel = context.WithCancel(ctx)
		s.done = make(chan struct{})
		go func() { defer close(s.done); serve(serving) }()
	}
}
