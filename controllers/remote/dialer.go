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

// ErrAddress says that a peer's server is at an address that no other cluster
// has.
var ErrAddress = errors.New("it is an address of this machine or of its network segment, where no other cluster is")

// dialer dials peers. Who names a server decides where this process connects
// to: a name is resolved once, what it resolves to is judged, and that address
// is dialled and no other.
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

// DialContext connects to host:port. All addresses of a name are judged before
// one of them is dialled: a name that mixes good and bad ones is not honest.
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
		if err := judge(address); err != nil {
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

// judge refuses the addresses of this machine, of services that are reached on
// its network segment alone, as the metadata of cloud machines, and of many at
// once.
func judge(address netip.Addr) error {
	address = address.Unmap()
	if !address.IsGlobalUnicast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s is not dialled: %w", address, ErrAddress)
	}
	return nil
}
