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
	// pathEvery is how often packets of the size that was agreed upon are tried.
	pathEvery = time.Minute
	// minPath is the least size that is tried: IPv6 asks as much of every link.
	minPath = 1280
)

// path finds out how large a packet to a peer and back may be: as large as was
// agreed upon, or else how large. A size does not pass when so many packets of
// it were lost in a row as make a peer count as gone.
type path struct {
	// agreed is in bytes; 0: nothing is tried.
	agreed int
	// tried is the size that is tried now, 0 before due; lost are the packets of
	// it without an answer.
	tried, lost int
	due         time.Time
	// low has passed and high has not; 0: not yet.
	low, high int

	// known tells whether passes was found out: the largest size that does; 0 if
	// none does that is tried.
	known  bool
	passes int
}

// next is the size to try now; 0 if none.
func (p *path) next(now time.Time) int {
	if p.tried == 0 && p.agreed > 0 && !now.Before(p.due) {
		p.tried, p.lost, p.low, p.high = p.agreed, 0, 0, 0
	}
	return p.tried
}

// answered notes that a packet of the size that is tried came back, and missed
// that one did not.
func (p *path) answered(now time.Time) {
	p.low = p.tried
	p.narrow(now)
}

func (p *path) missed(now time.Time) {
	if p.lost++; p.lost >= mayLose {
		p.high = p.tried
		p.narrow(now)
	}
}

// narrow chooses the next size to try, until it is known which one is the
// largest.
func (p *path) narrow(now time.Time) {
	p.lost = 0
	switch {
	case p.low == p.agreed, p.high > 0 && p.high <= minPath, p.high-p.low == 1:
		p.known, p.passes = true, p.low
		p.tried, p.due = 0, now.Add(pathEvery)
	case p.low == 0:
		p.tried = minPath
	default:
		p.tried = (p.low + p.high) / 2
	}
}

// headers are the bytes of a packet before those of a datagram.
func headers(a netip.Addr) int {
	const udp = 8
	if a.Is4() {
		return 20 + udp
	}
	return 40 + udp
}

// unfragmented has what is sent by a socket be lost, rather than be cut into
// pieces, here or on its way, whatever was learned of the way before.
func unfragmented(conn net.PacketConn, isIPv6 bool) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return errors.New("it is no socket")
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
