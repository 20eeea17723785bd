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

// BeaconPort is where gateways of one cluster ask each other, by UDP.
const BeaconPort = 5873

// A beacon's message is what it is, a nonce, and the code that only who has the
// key can make of both. Answers are as long as questions.
const (
	nonceSize  = 16
	beaconSize = 4 + nonceSize + sha256.Size
)

var (
	beaconAsk    = []byte("LQB1")
	beaconAnswer = []byte("LQA1")
)

// ErrRefused tells that the node is there, and that no gateway listens on it.
var ErrRefused = errors.New("the node is there, and no gateway listens on it")

// Key is what the gateways of one cluster have in common.
type Key [sha256.Size]byte

// KeyOf derives the key from a secret that the gateways share.
func KeyOf(secret []byte) Key {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("liqo gateways ask each other"))
	return Key(mac.Sum(nil))
}

// seal makes a message.
func seal(key Key, kind, nonce []byte) []byte {
	message := append(bytes.Clone(kind), nonce...)
	mac := hmac.New(sha256.New, key[:])
	mac.Write(message)
	return mac.Sum(message)
}

// open tells the nonce of a message, and with which of the keys it was made;
// nil if with none or if it is another kind of message.
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

// Beacon answers whoever has one of the keys, until the context ends. It says
// nothing to anybody else, and nothing at all while alive says no.
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
			continue // what an earlier answer met on its way
		}
		if nonce, key := open(keys(), beaconAsk, buffer[:n]); nonce != nil && alive() {
			_, _ = conn.WriteTo(seal(key, beaconAnswer, nonce), from)
		}
	}
}

// Ask asks a beacon, in the name of each key. An error tells that it did not
// answer in time; ErrRefused, which comes at once, that it does not run.
func Ask(ctx context.Context, at netip.AddrPort, keys []Key, patience time.Duration) error {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return fmt.Errorf("asking the gateway at %s: %w", at, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err = exchange(conn, keys, time.Now().Add(patience)); errors.Is(err, unix.ECONNREFUSED) {
		err = ErrRefused
	}
	if err != nil {
		return fmt.Errorf("asking the gateway at %s: %w", at, err)
	}
	return nil
}

// exchange asks by a socket that is connected, and waits for the answer. The
// kernel tells a later write, too, that an earlier one was refused.
func exchange(conn net.Conn, keys []Key, deadline time.Time) error {
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := conn.Write(seal(key, beaconAsk, nonce)); err != nil {
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
		if answered, _ := open(keys, beaconAnswer, buffer[:n]); bytes.Equal(answered, nonce) {
			return nil
		}
	}
}
