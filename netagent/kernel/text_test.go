// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"
	"pgregory.net/rapid"

	"liqo.io/federation/netagent/model"
)

var values = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func TestIptablesBackendOfTheNodeIsDetected(t *testing.T) {
	const none, some, more, kubelets = "*nat\nCOMMIT\n", "*nat\n-A A -j B\nCOMMIT\n",
		"*nat\n-A A -j B\n-A A -j C\n", "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\n"
	for _, test := range []struct {
		name string
		// A backend with an empty output fails.
		nft4, nft6, legacy4, legacy6 string
		want                         backend
	}{
		{name: "no rules in either", nft4: none, nft6: none, legacy4: none, legacy6: none, want: nft},
		{name: "rules in legacy only", nft4: none, nft6: none, legacy4: some, legacy6: none, want: legacy},
		{name: "more rules in nft", nft4: some, nft6: some, legacy4: some, legacy6: none, want: nft},
		{name: "chain of the kubelet in legacy", nft4: more, nft6: more, legacy4: kubelets, legacy6: none, want: legacy},
		{name: "without legacy", nft4: some, nft6: some, want: nft},
		{name: "without nft", legacy4: some, legacy6: some, want: legacy},
		{name: "without nft, and no rules in legacy", legacy4: none, legacy6: none},
		{name: "without IPv6", nft4: some, legacy4: more, want: legacy},
		{name: "chain of the kubelet, without IPv6", nft4: none, legacy4: kubelets, want: legacy},
		{name: "without any backend"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := detectBackend(func(b backend, f model.Family) (string, error) {
				out := map[backend]map[model.Family]string{
					nft:    {model.IPv4: test.nft4, model.IPv6: test.nft6},
					legacy: {model.IPv4: test.legacy4, model.IPv6: test.legacy6},
				}[b][f]
				if out == "" {
					return "", fmt.Errorf("%s has no %s", b, f)
				}
				return out, nil
			})
			if got != test.want || (err != nil) != (test.want == "") ||
				err != nil && !strings.HasPrefix(err.Error(), string(nft)) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// silent is a UDP socket of wireguard-go that neither sends nor receives.
type silent struct{ conn.Bind }

func (silent) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) { return nil, port, nil }
func (silent) Close() error                                         { return nil }
func (silent) Send([][]byte, conn.Endpoint) error                   { return nil }

// A device of wireguard-go reports the configuration that was written to it.
func TestDeviceReportsItsConfiguration(t *testing.T) {
	d := device.NewDevice(
		tuntest.NewChannelTUN().TUN(),
		silent{conn.NewDefaultBind()},
		device.NewLogger(device.LogLevelSilent, ""),
	)
	defer d.Close()
	configure := func(t *rapid.T) model.Tunnel {
		text, err := d.IpcGet()
		if err != nil {
			t.Fatal(err)
		}
		tunnel, err := parseTunnel(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return tunnel
	}
	rapid.Check(t, func(t *rapid.T) {
		key := model.PrivateKey(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		key[0], key[31] = key[0]&248, key[31]&127|64 // clamped, see model.PrivateKey
		port := rapid.IntRange(0, 65535).Draw(t, "port")
		want := model.Tunnel{PrivateKey: key, Port: port}
		for i := range rapid.IntRange(0, 5).Draw(t, "peers") {
			p := model.TunnelPeer{
				PublicKey: model.PublicKey{byte(i + 1), 7},
				Keepalive: time.Duration(rapid.IntRange(0, 65535).Draw(t, "keepalive")) * time.Second,
			}
			if rapid.Bool().Draw(t, "is called") {
				p.Endpoint = netip.AddrPortFrom(
					rapid.SampledFrom([]netip.Addr{netip.MustParseAddr("172.16.0.1"), netip.MustParseAddr("fd00::1")}).
						Draw(t, "endpoint"),
					51820,
				)
			}
			for j := range rapid.IntRange(0, 4).Draw(t, "CIDRs") {
				p.AllowedIPs = append(
					p.AllowedIPs,
					netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j)}), 24),
					netip.MustParsePrefix(fmt.Sprintf("fd00:%d:%d::/48", i, j)),
				)
			}
			want.Peers = append(want.Peers, p)
		}
		sortTunnel(&want)
		var remove []model.PublicKey
		for _, p := range configure(t).Peers {
			remove = append(remove, p.PublicKey)
		}
		if err := d.IpcSet(
			writeTunnel(TunnelChange{PrivateKey: &key, Port: &port, Remove: remove, Set: want.Peers}),
		); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, configure(t), values); diff != "" {
			t.Fatalf("(-written +reported):\n%s", diff)
		}
	})
}

func TestMalformedDeviceOutputIsAnErrorWithoutKeys(t *testing.T) {
	for _, text := range []string{
		"private_key=5ec7e7", "listen_port=70000", "public_key=zz", "public_key=" + strings.Repeat("00", 33),
	} {
		_, err := parseTunnel(strings.NewReader(text + "\n"))
		if err == nil || strings.Contains(err.Error(), "5ec7e7") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOnlyOwnedChainsAndJumpsAreParsed(t *testing.T) {
	const saved = `# Generated by iptables-nft-save v1.8.9 (nf_tables)
*mangle
:PREROUTING ACCEPT [0:0]
:LIQO-PREROUTING - [0:0]
-A PREROUTING -j LIQO-PREROUTING
-A LIQO-PREROUTING -i liqo.wg -j DROP
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
:KUBE-POSTROUTING - [0:0]
:LIQO-EMPTY - [0:0]
:LIQO-PREROUTING - [0:0]
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A POSTROUTING -s 10.0.0.0/8 -j LIQO-PREROUTING
-A POSTROUTING -j LIQO-EMPTY
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A LIQO-PREROUTING -s 10.1.0.0/16 -j LIQO-EMPTY
COMMIT
`
	chains, jumps := parseTables(model.IPv4, saved)
	wantChains := []model.Chain{
		{Family: model.IPv4, Table: "mangle", Name: "LIQO-PREROUTING", Rules: []string{"-i liqo.wg -j DROP"}},
		{Family: model.IPv4, Table: "nat", Name: "LIQO-EMPTY"},
		{Family: model.IPv4, Table: "nat", Name: "LIQO-PREROUTING", Rules: []string{"-s 10.1.0.0/16 -j LIQO-EMPTY"}},
	}
	wantJumps := []model.Jump{
		{Family: model.IPv4, Table: "mangle", Base: "PREROUTING", Chain: "LIQO-PREROUTING"},
		{Family: model.IPv4, Table: "nat", Base: "POSTROUTING", Chain: "LIQO-EMPTY"},
	}
	if diff := cmp.Diff(wantChains, chains); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantJumps, jumps); diff != "" {
		t.Errorf("jumps (-want +got):\n%s", diff)
	}
}

// Errors whose cause an administrator can remove contain a hint.
func TestErrorsContainHints(t *testing.T) {
	overlay := (&Namespace{handle: &netlink.Handle{}}).linkHints(
		model.Link{Name: model.OverlayLink, Kind: model.VXLAN, VNI: model.OverlayVNI},
	)
	for _, test := range []struct {
		name string
		err  error
		all  []hint
		want string
	}{
		{
			"a kernel without VXLAN", unix.EOPNOTSUPP, overlay,
			"the kernel of this node does not support this type of link: load its module vxlan",
		},
		{"a VNI that is taken", unix.EEXIST, overlay, "the VNI 5872 is used by "},
		{
			"the port of the overlay", unix.EADDRINUSE, []hint{portInUse(model.OverlayPort)},
			"UDP port 5872 of this node is in use by the process that ss -lunp shows: free it",
		},
		{
			"the port of the tunnel", unix.EADDRINUSE, []hint{portInUse(51820)},
			"free it, or set another port in the values of the chart",
		},
		{"another error", unix.EPERM, overlay, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := withHint(test.err, test.all...)
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want %q", err, test.want)
			}
			if test.want == "" && err.Error() != test.err.Error() {
				t.Errorf("unexpected hint: %q", err)
			}
		})
	}
	if text := portInUse(model.OverlayPort).text; strings.Contains(text, "choose") {
		t.Errorf("the port of the overlay is not configurable: %q", text)
	}
}

func TestChangeIsWrittenAsOneTransaction(t *testing.T) {
	got := writeTable("nat", ChainChange{
		Set:    []model.Chain{{Name: "LIQO-A", Rules: []string{"-j LIQO-B"}}, {Name: "LIQO-B"}},
		Delete: []string{"LIQO-C", "LIQO-D"},
	})
	want := `*nat
:LIQO-A - [0:0]
:LIQO-B - [0:0]
-A LIQO-A -j LIQO-B
-F LIQO-C
-F LIQO-D
-X LIQO-C
-X LIQO-D
COMMIT
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Count(got, "COMMIT") != 1 || slices.Contains(strings.Split(got, "\n"), "*filter") {
		t.Error("more than one transaction")
	}
}
