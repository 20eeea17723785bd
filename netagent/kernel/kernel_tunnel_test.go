// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/netagent/model"
)

// wireguard-go is configured by its text protocol, and WireGuard in the kernel by wgctrl, with the same result.
func TestKernelWireGuardReceivesTheSameConfiguration(t *testing.T) {
	_, pods, _ := net.ParseCIDR("10.1.0.0/16")
	_, control, _ := net.ParseCIDR("fd6c::1/128")
	for _, test := range []struct {
		name   string
		change TunnelChange
		want   wgtypes.Config
	}{
		{"nothing", TunnelChange{}, wgtypes.Config{}},
		{
			"its own key and port", TunnelChange{PrivateKey: &model.PrivateKey{1}, Port: ptr.To(51820)},
			wgtypes.Config{PrivateKey: &wgtypes.Key{1}, ListenPort: ptr.To(51820)},
		},
		{
			"a peer is removed before another one gets its ranges",
			TunnelChange{Remove: []model.PublicKey{{2}}, Set: []model.TunnelPeer{{
				PublicKey: model.PublicKey{3}, Endpoint: netip.MustParseAddrPort("192.0.2.1:51820"), Keepalive: 25 * time.Second,
				AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd6c::1/128")},
			}}},
			wgtypes.Config{Peers: []wgtypes.PeerConfig{
				{PublicKey: wgtypes.Key{2}, Remove: true},
				{
					PublicKey: wgtypes.Key{3}, Endpoint: &net.UDPAddr{
						IP: net.IP{192, 0, 2, 1}, Port: 51820,
					}, PersistentKeepaliveInterval: ptr.To(25 * time.Second),
					ReplaceAllowedIPs: true, AllowedIPs: []net.IPNet{*pods, *control},
				},
			}},
		},
		{
			"a peer without an endpoint keeps its current one, without keepalives",
			TunnelChange{Set: []model.TunnelPeer{{PublicKey: model.PublicKey{3}}}},
			wgtypes.Config{
				Peers: []wgtypes.PeerConfig{
					{PublicKey: wgtypes.Key{3}, PersistentKeepaliveInterval: ptr.To(time.Duration(0)), ReplaceAllowedIPs: true},
				},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, configOf(test.change)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
