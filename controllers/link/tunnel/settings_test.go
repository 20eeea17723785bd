// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"net/netip"
	"testing"

	"liqo.io/federation/netagent/model"
)

func TestPoolsHaveNoControlAddresses(t *testing.T) {
	control := netip.PrefixFrom(model.ControlAddress(model.PublicKey{1}), 48).Masked()
	for _, cidr := range prefixes(DefaultSettings().PoolCIDRs) {
		if cidr.Overlaps(control) {
			t.Errorf("%s has control addresses of gateways, which are in %s", cidr, control)
		}
	}
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	none := settingsOf("10.0.0.0/16")
	for what, settings := range map[string]settings{"the defaults": {Settings: DefaultSettings()},
		"no external addresses": none} {
		if errs := settings.Validate(); len(errs) > 0 {
			t.Errorf("%s: %v", what, errs)
		}
	}
	for name, change := range map[string]func(*settings){
		"an endpoint without a port":     func(s *settings) { s.Endpoints = []string{"rome.example.org"} },
		"external addresses and none":    func(s *settings) { s.ExternalCIDRs = []string{NoExternalCIDRs, "10.70.0.0/24"} },
		"an MTU that is too small":       func(s *settings) { s.MTU = 500 },
		"a pool of nothing":              func(s *settings) { s.PoolCIDRs = nil },
		"peers that may have no address": func(s *settings) { s.PeerCIDRs = nil },
		"a word to keep":                 func(s *settings) { s.KeepCIDRs = []string{"all"} },
		"a CIDR to keep twice":           func(s *settings) { s.KeepCIDRs = []string{"10.0.0.0/8", "10.0.0.0/8"} },
		"peers that may have a word":     func(s *settings) { s.PeerCIDRs = []string{"all"} },
		"host bits in CIDRs of peers":    func(s *settings) { s.PeerCIDRs = []string{"10.0.0.1/8"} },
	} {
		s := settingsOf("10.0.0.0/16")
		if change(&s); len(s.Validate()) == 0 {
			t.Errorf("%s: accepted", name)
		}
	}
}
