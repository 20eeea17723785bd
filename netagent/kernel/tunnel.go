// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/netagent/model"
)

// addTunnel creates a WireGuard link: in the kernel if it supports WireGuard, and otherwise with wireguard-go.
// The UDP socket of the tunnel is in the outer namespace.
func (n *Namespace) addTunnel(l model.Link) error {
	if n.outer == nil {
		return fmt.Errorf("creating link %s: the network namespace of its UDP socket is not open", l.Name)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Namespace = l.Name, l.MTU, netlink.NsFd(n.file.Fd())
	err := n.outer.handle.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = n.addDevice(l)
	}
	if err != nil {
		return fmt.Errorf("creating link %s of kind %s: %w", l.Name, l.Kind, err)
	}
	return nil
}

func (n *Namespace) addDevice(l model.Link) error {
	var link tun.Device
	if err := n.Do(func() (err error) { link, err = tun.CreateTUN(l.Name, l.MTU); return err }); err != nil {
		return err
	}
	sockets := &bindIn{StdNetBind: conn.NewStdNetBind().(*conn.StdNetBind), namespace: n.outer}
	d := device.NewDevice(
		fixedMTU{link, l.MTU},
		sockets,
		&device.Logger{Verbosef: device.DiscardLogf, Errorf: device.DiscardLogf},
	)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.devices[l.Name] = &userDevice{Device: d, sockets: sockets}
	return nil
}

// fixedMTU returns a constant MTU, which wireguard-go uses only for padding. Otherwise wireguard-go would read
// the MTU in the network namespace of the current thread.
type fixedMTU struct {
	tun.Device
	mtu int
}

// MTU returns the MTU with which the link was created.
func (f fixedMTU) MTU() (int, error) { return f.mtu, nil }

// userDevice is a device of wireguard-go.
type userDevice struct {
	*device.Device
	sockets *bindIn
}

// bindIn opens the UDP sockets of a device in namespace, which is not the network namespace of its link.
type bindIn struct {
	*conn.StdNetBind
	namespace *Namespace
	// open is set while the sockets are open. wireguard-go closes them when the link goes down, and does not
	// always open them again when the link is up shortly after.
	open atomic.Bool
}

// Open opens the sockets.
func (b *bindIn) Open(port uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	err = b.namespace.Do(func() (err error) { fns, actual, err = b.StdNetBind.Open(port); return err })
	b.open.Store(err == nil)
	return fns, actual, err
}

// Close closes the sockets.
func (b *bindIn) Close() error {
	b.open.Store(false)
	return b.StdNetBind.Close()
}

func (n *Namespace) deviceOf(link string) *userDevice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.devices[link]
}

// closeDevice closes the wireguard-go device of a link, and reports whether there was one.
func (n *Namespace) closeDevice(link string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.devices[link]
	if d != nil {
		d.Close()
		delete(n.devices, link)
	}
	return d != nil
}

// Implementation returns the implementation that runs a tunnel; empty if the tunnel does not exist.
func (n *Namespace) Implementation(link string) Implementation {
	if n.deviceOf(link) != nil {
		return InProcess
	}
	if l, err := n.link(link); err == nil && l.Type() == (&netlink.Wireguard{}).Type() {
		return InKernel
	}
	return ""
}

// Tunnel returns the configuration of a tunnel.
func (n *Namespace) Tunnel(link string) (model.Tunnel, error) {
	if d := n.deviceOf(link); d != nil {
		text, err := d.IpcGet()
		if err != nil {
			return model.Tunnel{}, fmt.Errorf("reading the tunnel %s: %w", link, err)
		}
		t, err := parseTunnel(strings.NewReader(text))
		t.Link = link
		return t, err
	}
	var found *wgtypes.Device
	err := n.withClient(func(c *wgctrl.Client) (err error) { found, err = c.Device(link); return err })
	if err != nil {
		return model.Tunnel{}, fmt.Errorf("reading the tunnel %s: %w", link, err)
	}
	t := model.Tunnel{Link: link, PrivateKey: model.PrivateKey(found.PrivateKey), Port: found.ListenPort}
	for _, p := range found.Peers {
		peer := model.TunnelPeer{PublicKey: model.PublicKey(p.PublicKey), Keepalive: p.PersistentKeepaliveInterval}
		if p.Endpoint != nil {
			peer.Endpoint = netip.AddrPortFrom(addrOf(p.Endpoint.IP), uint16(p.Endpoint.Port))
		}
		for _, a := range p.AllowedIPs {
			peer.AllowedIPs = append(peer.AllowedIPs, cidrOf(&a))
		}
		t.Peers = append(t.Peers, peer)
	}
	sortTunnel(&t)
	return t, nil
}

// Traffic returns the state and the counters of all peers of a tunnel.
func (n *Namespace) Traffic(link string) (map[model.PublicKey]Traffic, error) {
	if d := n.deviceOf(link); d != nil {
		text, err := d.IpcGet()
		if err != nil {
			return nil, fmt.Errorf("reading the traffic of tunnel %s: %w", link, err)
		}
		return parseTraffic(strings.NewReader(text))
	}
	var found *wgtypes.Device
	err := n.withClient(func(c *wgctrl.Client) (err error) { found, err = c.Device(link); return err })
	if err != nil {
		return nil, fmt.Errorf("reading the traffic of tunnel %s: %w", link, err)
	}
	all := make(map[model.PublicKey]Traffic, len(found.Peers))
	for _, p := range found.Peers {
		t := Traffic{Handshake: p.LastHandshakeTime, Received: uint64(p.ReceiveBytes), Sent: uint64(p.TransmitBytes)}
		if p.Endpoint != nil {
			t.Endpoint = netip.AddrPortFrom(addrOf(p.Endpoint.IP), uint16(p.Endpoint.Port))
		}
		all[model.PublicKey(p.PublicKey)] = t
	}
	return all, nil
}

// Packets returns the packet counters of the tunnel's link, as WireGuard itself counts bytes only.
func (n *Namespace) Packets(link string) (received, sent uint64, err error) {
	l, err := n.link(link)
	if err != nil {
		return 0, 0, err
	}
	counted := l.Attrs().Statistics
	if counted == nil {
		return 0, 0, fmt.Errorf("link %s has no statistics", link)
	}
	return counted.RxPackets, counted.TxPackets, nil
}

// ChangeTunnel changes the configuration of a tunnel.
func (n *Namespace) ChangeTunnel(link string, change TunnelChange) error {
	var err error
	if d := n.deviceOf(link); d != nil {
		if err = d.IpcSet(writeTunnel(change)); err == nil {
			err = d.Up()
		}
	} else {
		err = n.withClient(func(c *wgctrl.Client) error { return c.ConfigureDevice(link, configOf(change)) })
	}
	if err != nil {
		return fmt.Errorf("changing the tunnel %s: %w", link, withHint(err, portInUse(ptr.Deref(change.Port, 0))))
	}
	return nil
}

func (n *Namespace) withClient(f func(*wgctrl.Client) error) error {
	return n.Do(func() error {
		c, err := wgctrl.New()
		if err != nil {
			return err
		}
		return errors.Join(f(c), c.Close())
	})
}

func configOf(change TunnelChange) wgtypes.Config {
	config := wgtypes.Config{PrivateKey: (*wgtypes.Key)(change.PrivateKey), ListenPort: change.Port}
	for _, key := range change.Remove {
		config.Peers = append(config.Peers, wgtypes.PeerConfig{PublicKey: wgtypes.Key(key), Remove: true})
	}
	for _, p := range change.Set {
		keepalive := p.Keepalive.Truncate(time.Second)
		peer := wgtypes.PeerConfig{
			PublicKey:                   wgtypes.Key(p.PublicKey),
			PersistentKeepaliveInterval: &keepalive,
			ReplaceAllowedIPs:           true,
		}
		if p.Endpoint.IsValid() {
			peer.Endpoint = net.UDPAddrFromAddrPort(p.Endpoint)
		}
		for _, a := range p.AllowedIPs {
			peer.AllowedIPs = append(peer.AllowedIPs, *netOf(a))
		}
		config.Peers = append(config.Peers, peer)
	}
	return config
}
