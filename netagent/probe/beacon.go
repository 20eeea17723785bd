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
	"net"
	"net/netip"
	"time"
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

// Ask asks a beacon, in the name of each key, and tells whether it answered in
// time.
func Ask(ctx context.Context, at netip.AddrPort, keys []Key, patience time.Duration) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return false
	}
	deadline := time.Now().Add(patience)
	for _, key := range keys {
		if _, err := conn.Write(seal(key, beaconAsk, nonce)); err != nil {
			return false
		}
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return false
	}
	buffer := make([]byte, beaconSize+1)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return false
		}
		if answered, _ := open(keys, beaconAnswer, buffer[:n]); bytes.Equal(answered, nonce) {
			return true
		}
	}
}
