// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"liqo.io/federation/netagent/model"
)

// writeTunnel returns a change in the text protocol that configures wireguard-go, with lines of the form key=value, see
// https://www.wireguard.com/xplatform/.
func writeTunnel(change TunnelChange) string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	if change.PrivateKey != nil {
		line("private_key", hex.EncodeToString(change.PrivateKey[:]))
	}
	if change.Port != nil {
		line("listen_port", *change.Port)
	}
	for _, key := range change.Remove {
		line("public_key", hex.EncodeToString(key[:]))
		line("remove", true)
	}
	for _, p := range change.Set {
		line("public_key", hex.EncodeToString(p.PublicKey[:]))
		if p.Endpoint.IsValid() {
			line("endpoint", p.Endpoint)
		}
		line("persistent_keepalive_interval", int(p.Keepalive/time.Second))
		line("replace_allowed_ips", true)
		for _, a := range p.AllowedIPs {
			line("allowed_ip", a)
		}
	}
	return b.String()
}

// parseTunnel parses the configuration of a device. It fails if a value is malformed.
func parseTunnel(r io.Reader) (model.Tunnel, error) {
	var t model.Tunnel
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if err := parseLine(&t, key, value); err != nil {
			// The error must not contain the value, which may be a private key.
			return model.Tunnel{}, fmt.Errorf("parsing the configuration of WireGuard: malformed value of %s", key)
		}
	}
	sortTunnel(&t)
	return t, lines.Err()
}

func parseLine(t *model.Tunnel, key, value string) error {
	switch key {
	case "private_key":
		return parseKey(value, t.PrivateKey[:])
	case "listen_port":
		port, err := strconv.ParseUint(value, 10, 16)
		t.Port = int(port)
		return err
	case "public_key":
		t.Peers = append(t.Peers, model.TunnelPeer{})
		return parseKey(value, t.Peers[len(t.Peers)-1].PublicKey[:])
	}
	if len(t.Peers) == 0 {
		return nil
	}
	peer := &t.Peers[len(t.Peers)-1]
	switch key {
	case "endpoint":
		endpoint, err := netip.ParseAddrPort(value)
		peer.Endpoint = netip.AddrPortFrom(endpoint.Addr().Unmap(), endpoint.Port())
		return err
	case "persistent_keepalive_interval":
		seconds, err := strconv.ParseUint(value, 10, 16)
		peer.Keepalive = time.Duration(seconds) * time.Second
		return err
	case "allowed_ip":
		prefix, err := netip.ParsePrefix(value)
		peer.AllowedIPs = append(peer.AllowedIPs, prefix)
		return err
	}
	return nil
}

// parseTraffic parses the state of all peers of a device. It fails if a value is malformed.
func parseTraffic(r io.Reader) (map[model.PublicKey]Traffic, error) {
	all := make(map[model.PublicKey]Traffic)
	var key model.PublicKey
	var t Traffic
	var seconds, nanoseconds int64
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		var err error
		switch name {
		case "public_key":
			err = parseKey(value, key[:])
			t, seconds, nanoseconds = Traffic{}, 0, 0
		case "endpoint":
			var endpoint netip.AddrPort
			endpoint, err = netip.ParseAddrPort(value)
			t.Endpoint = netip.AddrPortFrom(endpoint.Addr().Unmap(), endpoint.Port())
		case "last_handshake_time_sec":
			seconds, err = strconv.ParseInt(value, 10, 64)
		case "last_handshake_time_nsec":
			nanoseconds, err = strconv.ParseInt(value, 10, 64)
		case "rx_bytes":
			t.Received, err = strconv.ParseUint(value, 10, 64)
		case "tx_bytes":
			t.Sent, err = strconv.ParseUint(value, 10, 64)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("parsing the configuration of WireGuard: malformed value of %s", name)
		}
		if seconds|nanoseconds != 0 {
			t.Handshake = time.Unix(seconds, nanoseconds)
		}
		all[key] = t
	}
	return all, lines.Err()
}

func parseKey(value string, key []byte) error {
	raw, err := hex.DecodeString(value)
	if err != nil || copy(key, raw) != len(key) || len(raw) != len(key) {
		return fmt.Errorf("must be a key of %d bytes in hexadecimal", len(key))
	}
	return nil
}

// sortTunnel sorts the peers of a tunnel by key, and their CIDRs.
func sortTunnel(t *model.Tunnel) {
	for _, p := range t.Peers {
		slices.SortFunc(p.AllowedIPs, model.ComparePrefix)
	}
	slices.SortFunc(
		t.Peers,
		func(a, b model.TunnelPeer) int { return cmp.Compare(a.PublicKey.String(), b.PublicKey.String()) },
	)
}
