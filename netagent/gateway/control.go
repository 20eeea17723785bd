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

// controlPlane carries the control plane through the tunnels, while this is the
// active gateway.
type controlPlane struct {
	gateway   *Gateway
	forwarder *control.Forwarder
	proxy     *control.Proxy
	// own is our public key, which our own control address is made of; empty before
	// it is known.
	own string
}

func newControlPlane(g *Gateway) *controlPlane {
	return &controlPlane{gateway: g, forwarder: control.NewForwarder(g.dialAPIServer), proxy: control.NewProxy(agent.ControlGuard(g.kube), g.dialPeer)}
}

// dialAPIServer connects to this cluster's own API server, from the node.
func (g *Gateway) dialAPIServer(ctx context.Context) (conn net.Conn, err error) {
	err = g.outer.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", g.options.APIServer)
		return err
	})
	return conn, err
}

// dialPeer connects to a gateway at its control address, from our own.
func (g *Gateway) dialPeer(ctx context.Context, to netip.AddrPort) (conn net.Conn, err error) {
	self := model.ControlAddress(g.keys.known().Public())
	err = g.inner.Do(func() (err error) {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(self, 0))}
		conn, err = dialer.DialContext(ctx, "tcp", to.String())
		return err
	})
	return conn, err
}

// run listens for peers as long as one is served, and for this cluster's
// controllers as long as one is called: one that stands by, which has neither,
// is not even connected to.
func (c *controlPlane) run(ctx context.Context) {
	var forwarding, proxying server
	every(ctx, reportEvery, nil, func(ctx context.Context) {
		served, called := c.peers()
		if c.moved(c.gateway.worker.outcome().publicKey) {
			// What goes on was made with the address before, which nobody hears any more.
			c.forwarder.Allow(nil)
			c.proxy.Lead(nil)
		}
		c.forwarder.Allow(served)
		c.proxy.Lead(called)
		options := c.gateway.options
		forwarding.be(ctx, len(served) > 0 && options.APIServer != "", func(ctx context.Context) {
			c.gateway.listeners.keep(ctx, "peers that reach the API server", c.forward)
		})
		proxying.be(ctx, len(called) > 0 && options.ControlPort != 0, func(ctx context.Context) {
			c.gateway.listeners.keep(ctx, "this cluster's controllers", c.serveProxy)
		})
	})
	forwarding.be(ctx, false, nil)
	proxying.be(ctx, false, nil)
}

// moved tells whether our own address is another one than before. That a key is
// not known is no news.
func (c *controlPlane) moved(key string) bool {
	if key == "" || key == c.own {
		return false
	}
	before := c.own
	c.own = key
	return before != ""
}

// peers are those that are served and those that are called; none while this
// gateway stands by.
func (c *controlPlane) peers() (served []netip.Addr, called map[string]netip.Addr) {
	o := c.gateway.worker.outcome()
	called = make(map[string]netip.Addr)
	for id, p := range o.control {
		if o.active && p.part.Serve {
			served = append(served, p.at)
		}
		if o.active && p.part.Call {
			called[id] = p.at
		}
	}
	return served, called
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
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(at, uint16(g.options.ControlPort)).String())
		return err
	})
	if err != nil {
		return nil, portTaken(err, "tcp", g.options.ControlPort, "network.gateway.controlPort")
	}
	return func() error {
		return c.proxy.Serve(ctx, listener, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(g.options.CertificateFile, g.options.KeyFile)
			return &certificate, err
		})
	}, nil
}

// server is something that is served at times.
type server struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// be has it served, or ended.
func (s *server) be(ctx context.Context, wanted bool, serve func(context.Context)) {
	switch {
	case !wanted && s.cancel != nil:
		s.cancel()
		<-s.done
		s.cancel = nil
	case wanted && s.cancel == nil:
		var serving context.Context
		serving, s.cancel = context.WithCancel(ctx)
		s.done = make(chan struct{})
		go func() { defer close(s.done); serve(serving) }()
	}
}
