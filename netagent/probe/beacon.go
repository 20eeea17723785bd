// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// BeaconPort is the UDP port of the beacon, at which the gateways of a cluster probe each other.
const BeaconPort = 5873

// A message consists of its type, a nonce, and an HMAC over both. A reply is as long as its request, so that
// beacons cannot be used for amplification attacks.
const (
	nonceSize  = 16
	beaconSize = 4 + nonceSize + sha256.Size
)

var (
	beaconRequest = []byte("LQB1")
	beaconReply   = []byte("LQA1")
)

// ErrRefused means that a node is reachable, but no gateway listens on it.
var ErrRefused = errors.New("no gateway listens on the node")

// Key is the secret by which the gateways of one cluster authenticate messages to each other.
type Key [sha256.Size]byte

// KeyOf derives the Key from the private key of the tunnel, or another secret that the gateways of a cluster share.
func KeyOf(secret []byte) Key {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("liqo gateways ask each other"))
	return Key(mac.Sum(nil))
}

// seal returns a message with its HMAC.
func seal(key Key, kind, nonce []byte) []byte {
	message := append(bytes.Clone(kind), nonce...)
	mac := hmac.New(sha256.New, key[:])
	mac.Write(message)
	return mac.Sum(message)
}

// open returns the nonce of a message, and the key with which it was sealed. The nonce is nil if the message is
// of another type, or was sealed with none of the keys.
func open(keys []Key, kind, message []byte) (nonce []byte, key Key) {
	if len(message) != beaconSize || !bytes.HasPrefix(message, kind) {
		return nil, Key{}
	}
	nonce = message[len(kind) : len(kind)+nonceSize]
	for _, key := range keys {
		if hmac.Equal(message, seal(key, kind, nonce)) {
			return nonce, key
		}
	}
	return nil, Key{}
}

// Beacon replies to requests that are sealed with one of the keys, while alive returns true, until the context
// ends. It ignores all other requests.
func Beacon(ctx context.Context, conn net.PacketConn, keys func() []Key, alive func() bool) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	buffer := make([]byte, beaconSize+1)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue // an ICMP error caused by an earlier reply
		}
		if nonce, key := open(keys(), beaconRequest, buffer[:n]); nonce != nil && alive() {
			_, _ = conn.WriteTo(seal(key, beaconReply, nonce), from)
		}
	}
}

// Query sends a request to a beacon, sealed with each of the keys in turn. It fails if there is no reply within
// the timeout, and at once with ErrRefused if no beacon listens.
func Query(ctx context.Context, at netip.AddrPort, keys []Key, timeout time.Duration) error {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return fmt.Errorf("probing the gateway at %s: %w", at, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err = exchange(conn, keys, time.Now().Add(timeout)); errors.Is(err, unix.ECONNREFUSED) {
		err = ErrRefused
	}
	if err != nil {
		return fmt.Errorf("probing the gateway at %s: %w", at, err)
	}
	return nil
}

// exchange sends the requests on a connected socket and waits for a reply. Writing a request may fail because an
// earlier one was refused.
func exchange(conn net.Conn, keys []Key, deadline time.Time) error {
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := conn.Write(seal(key, beaconRequest, nonce)); err != nil {
			return err
		}
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	buffer := make([]byte, beaconSize+1)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		if answered, _ := open(keys, beaconReply, buffer[:n]); bytes.Equal(answered, nonce) {
			return nil
		}
	}
}
