// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resolving returns a dialer that resolves one name, with the names it resolved and the addresses it
// dialled.
func resolving(answers ...[]string) (*dialer, *[]string, *[]string) {
	var resolved, dialled []string
	return &dialer{
		resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			answer := answers[min(len(resolved), len(answers)-1)]
			resolved = append(resolved, host)
			var addresses []netip.Addr
			for _, address := range answer {
				addresses = append(addresses, netip.MustParseAddr(address))
			}
			return addresses, nil
		},
		dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, errors.New("refused")
		},
	}, &resolved, &dialled
}

func TestPeerAddressPolicy(t *testing.T) {
	for host, allowed := range map[string]bool{
		"192.0.2.1":                true,
		"10.0.0.1":                 true,
		"2001:db8::1":              true,
		"fd00::1":                  true,
		"::ffff:192.0.2.1":         true,
		"127.0.0.1":                false,
		"127.255.0.9":              false,
		"0.0.0.0":                  false,
		"169.254.169.254":          false,
		"224.0.0.1":                false,
		"255.255.255.255":          false,
		"::1":                      false,
		"::":                       false,
		"fe80::1":                  false,
		"ff02::1":                  false,
		"::ffff:127.0.0.1":         false,
		"::ffff:169.254.169.254":   false,
		"fe80::1%eth0":             false,
		"0:0:0:0:0:ffff:7f00:0001": false,
	} {
		d, resolved, dialled := resolving(nil)
		_, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "6443"))
		if got := !errors.Is(err, ErrAddress); got != allowed || (len(*dialled) == 1) != allowed || len(*resolved) > 0 {
			t.Errorf("%s: error %v, dialled %v", host, err, *dialled)
		}
	}
	d, _, dialled := resolving([]string{"192.0.2.1", "127.0.0.1"})
	if _, err := d.DialContext(t.Context(), "tcp", "mixed.example.com:6443"); !errors.Is(err, ErrAddress) ||
		len(*dialled) > 0 {
		t.Errorf("a name with a forbidden address: error %v, dialled %v", err, *dialled)
	}
}

func TestNamesAreResolvedOnceAndTheirAddressesDialled(t *testing.T) {
	// The second response is the one of an attacker, for the dial.
	d, resolved, dialled := resolving([]string{"192.0.2.1", "192.0.2.2"}, []string{"127.0.0.1"})
	if _, err := d.DialContext(t.Context(), "tcp", "rebinding.example.com:6443"); err == nil {
		t.Error("it connected")
	}
	if diff := cmp.Diff([]string{"rebinding.example.com"}, *resolved); diff != "" {
		t.Errorf("resolved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"192.0.2.1:6443", "192.0.2.2:6443"}, *dialled); diff != "" {
		t.Errorf("dialled (-want +got):\n%s", diff)
	}
}

func TestClientsOfPeersDialByThePolicy(t *testing.T) {
	config, err := Config(&Identity{Server: "https://127.0.0.1:6443", Token: "token"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = get(t, config, "/")
	if !errors.Is(err, ErrAddress) || !Unreachable(err) || !strings.Contains(Describe(err), "is forbidden") {
		t.Errorf("error %v (%s)", err, Describe(err))
	}
}
