// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
)

// ErrAddress is returned for a server at an address that no remote cluster can have.
var ErrAddress = errors.New("a remote cluster cannot have an address of this machine or of its network segment")

// dialer dials peers. The name of a server is chosen by the peer, so it must not lead to services that only this
// machine reaches: it is resolved once, all addresses are checked, and only these addresses are dialled.
type dialer struct {
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDialer() *dialer {
	return &dialer{
		resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		dial: (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext,
	}
}

// DialContext connects to host:port. It fails with ErrAddress if any address of the host is forbidden, even if others
// are not: such a name is suspicious.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if err := checkAddress(address); err != nil {
			return nil, err
		}
	}
	err = fmt.Errorf("%s has no address", host)
	for _, address := range addresses {
		var connection net.Conn
		if connection, err = d.dial(ctx, network, net.JoinHostPort(address.Unmap().String(), port)); err == nil {
			return connection, nil
		}
	}
	return nil, err
}

func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	return d.resolve(ctx, host)
}

// checkAddress returns ErrAddress for an address of this machine, for a link-local address, for example of a cloud's
// metadata service, and for a multicast or broadcast address.
func checkAddress(address netip.Addr) error {
	address = address.Unmap()
	if !address.IsGlobalUnicast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("dialling %s is forbidden: %w", address, ErrAddress)
	}
	return nil
}
