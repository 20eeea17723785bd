// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// The two gateways have each other's public keys, and one of them an endpoint of the other. Milan serves its
// control port to rome.
func TestControlPortIsReachableBeforeCIDRsAreAgreedUpon(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			for _, n := range append(w.Rome.Nodes, w.Milan.Nodes...) {
				serve(t, n.Pod)
			}
			before := w.snapshot(t)
			rome, milan := &w.Rome.Input.Peers[0], &w.Milan.Input.Peers[0]
			full := []model.Peer{*rome, *milan}
			*rome = model.Peer{
				ClusterID: "milan",
				PublicKey: rome.PublicKey,
				Endpoint:  rome.Endpoint,
				Control:   model.Control{Call: true},
			}
			*milan = model.Peer{ClusterID: "rome", PublicKey: milan.PublicKey, Control: model.Control{Serve: true}}
			w.apply(t)
			w.unchanged(t)
			ofMilan, ofRome := model.ControlAddress(rome.PublicKey), model.ControlAddress(milan.PublicKey)
			inRome, inMilan := w.Rome.Nodes[0].Inner, w.Milan.Nodes[0].Inner
			served := func(at netip.Addr, port int) netip.AddrPort { return netip.AddrPortFrom(at, uint16(port)) }
			for _, ns := range []*kernel.Namespace{inRome, inMilan} {
				answer(t, ns, model.ControlPort)
				answer(t, ns, model.ControlPort+1)
			}

			if from, err := greeting(inRome, served(ofMilan, model.ControlPort), exchangeTimeout); err != nil ||
				from != ofRome.String() {
				t.Errorf("rome calls milan's control port: %v, seen as %q, not as %s", err, from, ofRome)
			}
			for what, call := range map[string]struct {
				from *kernel.Namespace
				to   netip.AddrPort
			}{
				"another port of milan's":            {inRome, served(ofMilan, model.ControlPort+1)},
				"the control port of the one served": {inMilan, served(ofRome, model.ControlPort)},
				"milan's from rome's node":           {w.Rome.Nodes[0].NS, served(ofMilan, model.ControlPort)},
				"milan's from a pod of rome":         {w.Rome.Nodes[1].Pod, served(ofMilan, model.ControlPort)},
				"milan's from milan's own node":      {w.Milan.Nodes[0].NS, served(ofMilan, model.ControlPort)},
			} {
				if from, err := greeting(call.from, call.to, time.Second); err == nil {
					t.Errorf("%s is reached, from %s", what, from)
				}
			}

			// When CIDRs are agreed upon later, the control port stays reachable.
			for i, p := range []*model.Peer{rome, milan} {
				control := p.Control
				*p = full[i]
				p.Control = control
			}
			w.apply(t)
			w.unchanged(t)
			w.podsReachPods(t)
			if _, err := greeting(inRome, served(ofMilan, model.ControlPort), exchangeTimeout); err != nil {
				t.Errorf("milan's control port is not reached any more: %v", err)
			}
			w.teardown(t)
			if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

// answer serves a TCP port by IPv6 until the test ends, and responds with the address of the client.
func answer(t *testing.T, ns *kernel.Namespace, port int) {
	t.Helper()
	var calls net.Listener
	if err := ns.Do(
		func() (err error) { calls, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port)); return err },
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { calls.Close() })
	go func() {
		for {
			conn, err := calls.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(conn, caller(conn.RemoteAddr()))
			conn.Close()
		}
	}()
}

// greeting connects to a port, and returns the address of the client that the server responds with. It fails
// after within.
func greeting(ns *kernel.Namespace, to netip.AddrPort, within time.Duration) (string, error) {
	var conn net.Conn
	if err := ns.Do(
		func() (err error) { conn, err = net.DialTimeout("tcp", to.String(), within); return err },
	); err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}
