// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pathInterval is the time between two measurements of the path MTU.
	pathInterval = time.Minute
	// minPath is the smallest packet size that is probed, in bytes: the minimum MTU of IPv6.
	minPath = 1280
)

// path measures the path MTU to a peer and back, by bisection up to a limit. A size does not pass if
// lossThreshold consecutive packets of this size are lost.
type path struct {
	// limit is the agreed MTU in bytes; 0 disables the measurement.
	limit int
	// tried is the packet size that is probed; 0 between measurements. lost counts the consecutive lost packets of this
	// size. due is the time of the next measurement.
	tried, lost int
	due         time.Time
	// low is the largest packet size that passed, and high the smallest that did not, in bytes; 0 if there is none yet.
	low, high int

	// known is set once the path MTU was measured. mtu is the result: the largest size that passes, 0 if none
	// does.
	known bool
	mtu   int
}

// next returns the packet size to probe now; 0 if none is due.
func (p *path) next(now time.Time) int {
	if p.tried == 0 && p.limit > 0 && !now.Before(p.due) {
		p.tried, p.lost, p.low, p.high = p.limit, 0, 0, 0
	}
	return p.tried
}

// answered records a reply to a packet of the size tried, and missed records its loss.
func (p *path) answered(now time.Time) {
	p.low = p.tried
	p.bisect(now)
}

func (p *path) missed(now time.Time) {
	if p.lost++; p.lost >= lossThreshold {
		p.high = p.tried
		p.bisect(now)
	}
}

// bisect selects the next size to try, or ends the measurement once the path MTU is found.
func (p *path) bisect(now time.Time) {
	p.lost = 0
	switch {
	case p.low == p.limit, p.high > 0 && p.high <= minPath, p.high-p.low == 1:
		p.known, p.mtu = true, p.low
		p.tried, p.due = 0, now.Add(pathInterval)
	case p.low == 0:
		p.tried = minPath
	default:
		p.tried = (p.low + p.high) / 2
	}
}

// headers returns the size of the IP and UDP headers of a packet to an address, in bytes.
func headers(a netip.Addr) int {
	const udp = 8
	if a.Is4() {
		return 20 + udp
	}
	return 40 + udp
}

// disableFragmentation makes the kernel drop packets of a socket that are too large instead of fragmenting them,
// and ignore the path MTU that it has cached.
func disableFragmentation(conn net.PacketConn, isIPv6 bool) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return errors.New("not a socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	level, option, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	if isIPv6 {
		level, option, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, refused)
}
