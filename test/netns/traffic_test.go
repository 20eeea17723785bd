// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/kernel"
)

// port is the port of the test servers, for UDP and TCP.
const port = 7000

// longTimeout is the timeout of connections that are in use while agents work.
const longTimeout = 5 * time.Minute

// exchangeTimeout is the timeout of one exchange, including the WireGuard handshake and path MTU discovery.
const exchangeTimeout = 10 * time.Second

// serve runs a UDP and a TCP server in a namespace until the test ends. Both respond with the address of the
// client, and return the data that they receive.
func serve(t *testing.T, ns *kernel.Namespace) {
	t.Helper()
	var packets net.PacketConn
	var calls net.Listener
	err := ns.Do(func() (err error) {
		if packets, err = net.ListenPacket("udp", fmt.Sprintf(":%d", port)); err != nil {
			return err
		}
		calls, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close(); calls.Close() })
	go echo(packets)
	go func() {
		for {
			conn, err := calls.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(longTimeout))
				if _, err := fmt.Fprintln(conn, caller(conn.RemoteAddr())); err == nil {
					_, _ = io.Copy(conn, conn)
				}
			}()
		}
	}()
}

func echo(packets net.PacketConn) {
	buffer := make([]byte, 65535)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo(append([]byte(caller(from)+"\n"), buffer[:n]...), from)
	}
}

func caller(a net.Addr) string {
	return netip.MustParseAddrPort(a.String()).Addr().Unmap().String()
}

// datagram sends UDP packets of a size until one is answered, and returns the client's address as the server
// observed it.
func datagram(ns *kernel.Namespace, to netip.Addr, size int, timeout time.Duration) (string, error) {
	conn, err := dial(ns, "udp", to, timeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return exchangeDatagram(conn, size, timeout)
}

// datagrams is the number of UDP packets sent, which makes each packet unique.
var datagrams atomic.Uint64

// exchangeDatagram sends UDP packets on a socket until one of them is answered, and returns the client's
// address as the server observed it. Packets are unique, so that late replies to earlier packets are ignored.
func exchangeDatagram(conn net.Conn, size int, timeout time.Duration) (string, error) {
	datagram := bytes.Repeat([]byte("x"), size)
	sent := make(map[string]bool)
	buffer := make([]byte, 65535)
	observed := "no reply"
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		copy(datagram, binary.LittleEndian.AppendUint64(nil, datagrams.Add(1)))
		sent[string(datagram)] = true
		if _, err := conn.Write(datagram); err != nil && !errors.Is(err, unix.EMSGSIZE) {
			return "", err
		}
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			n, err := conn.Read(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.EMSGSIZE) {
				break // the packet was lost, or was too large for the path MTU, which is known now
			}
			if err != nil {
				return "", err
			}
			saw, echo, _ := bytes.Cut(buffer[:n], []byte("\n"))
			if sent[string(echo)] {
				return string(saw), nil
			}
			observed = fmt.Sprintf("%d bytes of another datagram", len(echo))
		}
	}
	return "", fmt.Errorf("no answer to %d bytes sent to %s: %s", size, conn.RemoteAddr(), observed)
}

// call sends data over a TCP connection, reads it back, and returns the client's address as the server
// observed it.
func call(ns *kernel.Namespace, to netip.Addr, size int, timeout time.Duration) (string, error) {
	conn, err := dial(ns, "tcp", to, timeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	all, err := io.ReadAll(conn)
	saw, echo, _ := bytes.Cut(all, []byte("\n"))
	if err == nil && !bytes.Equal(echo, sent) {
		err = fmt.Errorf("%d bytes sent, %d returned", len(sent), len(echo))
	}
	return string(saw), err
}

func dial(ns *kernel.Namespace, network string, to netip.Addr, timeout time.Duration) (conn net.Conn, err error) {
	err = ns.Do(func() (err error) {
		conn, err = net.DialTimeout(network, netip.AddrPortFrom(to, port).String(), timeout)
		return err
	})
	return conn, err
}

// ongoing is a TCP connection that is in use.
type ongoing struct {
	conn    net.Conn
	back    *bufio.Reader
	stop    chan struct{}
	done    chan error
	longest time.Duration
}

// transfer sends data over a TCP connection and reads it back, repeatedly until end is called.
func transfer(t *testing.T, from *kernel.Namespace, to netip.Addr) *ongoing {
	t.Helper()
	conn, err := dial(from, "tcp", to, exchangeTimeout)
	if err != nil {
		t.Fatal(err)
	}
	// The server sends the address of the client first, which proves that the connection is established.
	back := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(exchangeTimeout))
	if _, err := back.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	o := &ongoing{conn: conn, back: back, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { o.done <- o.run() }()
	t.Cleanup(func() { conn.Close() })
	return o
}

func (o *ongoing) run() error {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	echo := make([]byte, len(sent))
	for {
		began := time.Now()
		_ = o.conn.SetDeadline(began.Add(agentTimeout))
		if _, err := o.conn.Write(sent); err != nil {
			return err
		}
		if _, err := io.ReadFull(o.back, echo); err != nil {
			return err
		}
		if !bytes.Equal(echo, sent) {
			return errors.New("the echo differs")
		}
		o.longest = max(o.longest, time.Since(began))
		select {
		case <-o.stop:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end closes the connection, and returns the longest time between sending data and receiving it.
func (o *ongoing) end(t *testing.T) time.Duration {
	t.Helper()
	close(o.stop)
	if err := <-o.done; err != nil {
		t.Errorf("a connection that was in use: %v", err)
	}
	return o.longest
}

// exchange sends UDP packets and uses a TCP connection, and checks the client's address that the server
// observed.
func exchange(t *testing.T, what string, from *kernel.Namespace, to netip.Addr, want netip.Addr) {
	t.Helper()
	check := func(how, saw string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s, %s to %s: %v", what, how, to, err)
		} else if saw != want.String() {
			t.Errorf("%s, %s to %s: the server saw %s, not %s", what, how, to, saw, want)
		}
	}
	for _, size := range []int{1, 1400, 8000} {
		saw, err := datagram(from, to, size, exchangeTimeout)
		check(fmt.Sprintf("a datagram of %d bytes", size), saw, err)
	}
	saw, err := call(from, to, 1<<20, exchangeTimeout)
	check("a connection", saw, err)
}
