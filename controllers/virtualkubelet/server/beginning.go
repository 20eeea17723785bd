// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// upgradeTimeout is the timeout for the response of the provider to an upgrade request, with its TLS handshake.
	upgradeTimeout = 30 * time.Second
	// maxUpgrade is the maximum length of that response and of the TLS handshake together, in bytes.
	maxUpgrade = 128 << 10
)

var errUpgradeTooLarge = errors.New("the provider's response is larger than this cluster reads")

// beginning is the response to an upgrade request, and the connection to the provider, until the provider has
// responded. The proxy of apimachinery reads the header of that response without a limit. It requests the connection of
// the client only once it has read the header.
type beginning struct {
	http.ResponseWriter
	provider *limitedConn
}

// beginningKey is the key of the beginning in the context of a request to the provider.
type beginningKey struct{}

// limitedDial returns a function that dials as dial does. If the context has a beginning, the connection is limited
// until the client's connection is requested from it.
func limitedDial(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		begin, ok := ctx.Value(beginningKey{}).(*beginning)
		if err != nil || !ok {
			return connection, err
		}
		if err := connection.SetReadDeadline(time.Now().Add(upgradeTimeout)); err != nil {
			return nil, errors.Join(err, connection.Close())
		}
		begin.provider = &limitedConn{Conn: connection}
		begin.provider.left.Store(maxUpgrade)
		return begin.provider, nil
	}
}

// Hijack implements http.Hijacker. It ends the limits of the connection to the provider.
func (b *beginning) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if b.provider != nil {
		b.provider.unlimited.Store(true)
		if err := b.provider.SetReadDeadline(time.Time{}); err != nil {
			return nil, nil, err
		}
	}
	return http.NewResponseController(b.ResponseWriter).Hijack()
}

// limitedConn is a connection that fails when it has read too many bytes.
type limitedConn struct {
	net.Conn
	left      atomic.Int64
	unlimited atomic.Bool
}

// Read implements io.Reader.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(-int64(n)) < 0 && !c.unlimited.Load() {
		return 0, errUpgradeTooLarge
	}
	return n, err
}
