// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/model"
)

func TestUnresponsiveEndpointIsReplacedByTheNext(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	names := map[string][]netip.Addr{"gateway.example": {addr("fd00::9"), addr("172.16.2.9")}}
	e := &Endpoints{Clock: clock, Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		if a := names[host]; a != nil {
			return a, nil
		}
		return nil, errors.New("no such host")
	}}
	te := milan()
	te.Spec.Endpoints = []string{
		"172.16.2.1:51820",
		"nowhere.example:1",
		"gateway.example:51821",
		"no port",
		"[fd00::1]:0",
	}
	connected := false
	follow := func(want string, changes bool) {
		t.Helper()
		changed := e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return connected })
		got, learned := e.Of(te)
		if learned {
			t.Errorf("%s was learned from packets", got)
		}
		if text := got.String(); got.IsValid() && text != want || !got.IsValid() && want != "" || changed != changes {
			t.Errorf("endpoint %s, want %q; changed: %v", got, want, changed)
		}
	}
	follow("172.16.2.1:51820", false)
	clock.Step(endpointTimeout - time.Second)
	follow("172.16.2.1:51820", false)
	clock.Step(time.Second)
	follow("172.16.2.9:51821", true)
	connected = true
	clock.Step(time.Hour)
	follow("172.16.2.9:51821", false)
	connected = false
	clock.Step(endpointTimeout - time.Second)
	follow("172.16.2.9:51821", false)
	clock.Step(time.Second)
	follow("172.16.2.1:51820", true)

	// From here on the name resolves to another address.
	names["gateway.example"] = []netip.Addr{addr("172.16.2.10")}
	clock.Step(endpointTimeout)
	follow("172.16.2.10:51821", true)

	te = milan()
	te.Spec.Endpoints = []string{"nowhere.example:1"}
	if at, _ := e.Of(te); at.IsValid() {
		t.Error("an endpoint that is no longer announced is used")
	}
	follow("", false)
	te = milan()
	te.Spec.Endpoints = nil
	follow("", false)
	// A connected peer starts to announce an endpoint.
	connected = true
	te = milan()
	follow("172.16.2.1:51820", false)
}

// The gateway may be configured for a new peer before the first call of Follow.
func TestEndpointThatNeedsNoResolutionIsUsedAtOnce(t *testing.T) {
	for _, test := range []struct {
		name      string
		endpoints []string
		reported  string // in the status
		want      string // empty: none
	}{
		{"first endpoint is an IPv4 address", []string{"172.16.2.1:51820", "172.16.2.2:51820"}, "", "172.16.2.1:51820"},
		{"first endpoint is an IPv6 address", []string{"[fd00::1]:51820"}, "", "[fd00::1]:51820"},
		{"status reports an endpoint", []string{"172.16.2.1:51820"}, "172.16.9.9:4000", "172.16.9.9:4000"},
		{"status reports an endpoint and none is announced", nil, "172.16.9.9:4000", "172.16.9.9:4000"},
		{"no endpoint is announced", nil, "", ""},
		{"first endpoint is a name", []string{"gateway.example:51820", "172.16.2.1:51820"}, "", ""},
		{"first endpoint is invalid", []string{"172.16.2.1:0", "172.16.2.1:51820"}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &Endpoints{
				Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
				Lookup: func(context.Context, string) ([]netip.Addr, error) {
					return nil, errors.New("no such host")
				},
			}
			te := milan()
			te.Spec.Endpoints = test.endpoints
			if test.reported != "" {
				te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, Endpoint: test.reported}
			}
			got, learned := e.Of(te)
			if got.IsValid() != (test.want != "") || got.IsValid() && got.String() != test.want {
				t.Errorf("endpoint %s, want %q", got, test.want)
			}
			if learned != (test.reported != "") {
				t.Errorf("learned: %v", learned)
			}
			if !got.IsValid() {
				return
			}
			// The first call of Follow does not change the endpoint.
			changed := e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
			if now, _ := e.Of(te); changed || now != got {
				t.Errorf("endpoint %s after the first call of Follow", now)
			}
		})
	}
}

// A name server that does not respond blocks Follow for resolveTimeout, once per resolveRetry, and does not
// prevent the resolution of the names behind it.
func TestUnresolvableNamesAreRetriedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lookups []string
		e := &Endpoints{Clock: clock.RealClock{}, Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			lookups = append(lookups, host)
			if host == "fine.example" {
				return []netip.Addr{addr("172.16.2.9")}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		te := milan()
		te.Spec.Endpoints = []string{"first.example:1", "second.example:1", "fine.example:1"}
		began := time.Now()
		at := func() netip.AddrPort { at, _ := e.Of(te); return at }
		for !at().IsValid() && time.Since(began) < time.Minute {
			before := time.Now()
			e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
			if took := time.Since(before); took > resolveTimeout {
				t.Errorf("Follow took %s", took)
			}
			time.Sleep(time.Second)
		}
		if want := []string{"first.example", "second.example", "fine.example"}; !slices.Equal(lookups, want) ||
			at().String() != "172.16.2.9:1" {
			t.Errorf("lookups %q, endpoint %s", lookups, at())
		}
	})
}

// The gateway sends no handshakes to addresses in the local cluster, even if a peer's name resolves to one. It
// uses the next endpoint instead.
func TestEndpointThatResolvesIntoTheLocalClusterIsRefused(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := &Endpoints{Clock: clock, Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		return map[string][]netip.Addr{
			"pod.example": {addr("10.0.7.7")}, "node.example": {addr("::ffff:192.168.1.2")},
			"service.example": {addr("10.96.0.10")}, "outside.example": {addr("198.51.100.2")},
		}[host], nil
	}}
	te := milan()
	te.Spec.Endpoints = []string{
		"pod.example:53",
		"node.example:10250",
		"service.example:53",
		"outside.example:51820",
		"172.16.2.1:51820",
	}
	for _, want := range []string{
		"is in the local range 10.0.0.0/16", "is local node rome-2",
		"is in the local range 10.96.0.0/12", "is local node rome-2", "",
	} {
		e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
		o := objects(te)
		o.Nodes[0].Status.Addresses = append(
			o.Nodes[0].Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.2"},
		)
		in := Translate("rome-1", rome, o, e.Of).Input
		in.PrivateKey = model.PrivateKey{1}
		_, inside, refused, err := model.Gateway(in)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && (len(refused) > 0 || len(inside.Tunnel.Peers) != 1) ||
			want != "" && (len(inside.Tunnel.Peers) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Reason, want)) {
			t.Errorf("refused: %+v, want %q; peers: %+v", refused, want, inside.Tunnel.Peers)
		}
		clock.Step(endpointTimeout)
	}
}

func TestStartingAndStandbyGatewaysUseTheReportedEndpoint(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := &Endpoints{Clock: clock}
	te := milan()
	te.Spec.Endpoints = []string{"172.16.2.1:51820", "172.16.2.2:51820"}
	follow := func(active bool, want string, wantLearned bool) {
		t.Helper()
		e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, active, func(string) bool { return false })
		if got, learned := e.Of(te); got.String() != want || learned != wantLearned {
			t.Errorf("endpoint %s, want %s; learned: %v", got, want, learned)
		}
	}
	te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, Endpoint: "172.16.2.2:51820"}
	follow(true, "172.16.2.2:51820", true)
	// The active gateway selects the endpoint itself, whatever the status reports.
	clock.Step(endpointTimeout)
	follow(true, "172.16.2.1:51820", false)
	follow(false, "172.16.2.2:51820", true)
	// The status may report an endpoint that the peer never announced.
	te.Status.Endpoint = "172.16.9.9:4000"
	follow(false, "172.16.9.9:4000", true)
	te.Status.Phase = v1alpha1.TunnelConnecting
	clock.Step(time.Hour)
	follow(false, "172.16.9.9:4000", true)
	follow(true, "172.16.9.9:4000", true)

	// A status whose observedGeneration is outdated is ignored.
	e = &Endpoints{Clock: clock}
	te.Status.Phase, te.Generation = v1alpha1.TunnelConnected, 2
	follow(true, "172.16.2.1:51820", false)

	// A peer without announced endpoints is reached at the endpoint in its status.
	e = &Endpoints{Clock: clock}
	te.Spec.Endpoints, te.Status.ObservedGeneration = nil, 2
	follow(false, "172.16.9.9:4000", true)

	// The selection for a deleted TunnelEndpoint is not used for a new one of the same name.
	te.UID, te.Status = "another", v1alpha1.TunnelEndpointStatus{}
	e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
	if at, _ := e.Of(te); at.IsValid() {
		t.Errorf("endpoint %s of the previous TunnelEndpoint", at)
	}
}
