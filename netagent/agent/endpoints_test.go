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

func TestThePeerIsCalledAtTheNextEndpointWhileNothingIsHeard(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	names := map[string][]netip.Addr{"gateway.example": {addr("fd00::9"), addr("172.16.2.9")}}
	e := &Endpoints{Clock: clock, Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		if a := names[host]; a != nil {
			return a, nil
		}
		return nil, errors.New("no such host")
	}}
	te := milan()
	te.Spec.Endpoints = []string{"172.16.2.1:51820", "nowhere.example:1", "gateway.example:51821", "no port", "[fd00::1]:0"}
	heard := false
	follow := func(want string, changes bool) {
		t.Helper()
		changed := e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return heard })
		got, known := e.Of(te)
		if known {
			t.Errorf("%s is where it was heard", got)
		}
		if text := got.String(); got.IsValid() && text != want || !got.IsValid() && want != "" || changed != changes {
			t.Errorf("called at %s, not %q; changed: %v", got, want, changed)
		}
	}
	follow("172.16.2.1:51820", false)
	clock.Step(endpointPatience - time.Second)
	follow("172.16.2.1:51820", false)
	clock.Step(time.Second)
	follow("172.16.2.9:51821", true)
	heard = true
	clock.Step(time.Hour)
	follow("172.16.2.9:51821", false)
	heard = false
	clock.Step(endpointPatience - time.Second)
	follow("172.16.2.9:51821", false)
	clock.Step(time.Second)
	follow("172.16.2.1:51820", true)

	// The name leads elsewhere by now.
	names["gateway.example"] = []netip.Addr{addr("172.16.2.10")}
	clock.Step(endpointPatience)
	follow("172.16.2.10:51821", true)

	te = milan()
	te.Spec.Endpoints = []string{"nowhere.example:1"}
	if at, _ := e.Of(te); at.IsValid() {
		t.Error("a peer with other endpoints is called at the ones before")
	}
	follow("", false)
	te = milan()
	te.Spec.Endpoints = nil
	follow("", false)
	// One that is heard from says that it is called elsewhere from now on.
	heard = true
	te = milan()
	follow("172.16.2.1:51820", false)
}

// The first pass that meets a peer may come before anybody follows it.
func TestAPeerIsCalledAtOnceWhereNoNameIsToBeResolved(t *testing.T) {
	for _, test := range []struct {
		name      string
		endpoints []string
		heard     string // where it was
		want      string // empty: nowhere
	}{
		{"at its first address", []string{"172.16.2.1:51820", "172.16.2.2:51820"}, "", "172.16.2.1:51820"},
		{"at its first address by IPv6", []string{"[fd00::1]:51820"}, "", "[fd00::1]:51820"},
		{"where it was heard last", []string{"172.16.2.1:51820"}, "172.16.9.9:4000", "172.16.9.9:4000"},
		{"where it was heard last, and it only calls", nil, "172.16.9.9:4000", "172.16.9.9:4000"},
		{"nowhere, as it only calls", nil, "", ""},
		{"nowhere, as a name comes first", []string{"gateway.example:51820", "172.16.2.1:51820"}, "", ""},
		{"nowhere, as the first is no endpoint", []string{"172.16.2.1:0", "172.16.2.1:51820"}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &Endpoints{Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return nil, errors.New("no such host")
			}}
			te := milan()
			te.Spec.Endpoints = test.endpoints
			if test.heard != "" {
				te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, Endpoint: test.heard}
			}
			got, heard := e.Of(te)
			if got.IsValid() != (test.want != "") || got.IsValid() && got.String() != test.want {
				t.Errorf("called at %s, not at %q", got, test.want)
			}
			if heard != (test.heard != "") {
				t.Errorf("heard there: %v", heard)
			}
			if !got.IsValid() {
				return
			}
			// Who follows it from now on changes nothing before its time.
			changed := e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
			if now, _ := e.Of(te); changed || now != got {
				t.Errorf("called at %s as soon as it is followed", now)
			}
		})
	}
}

// A name server that does not answer keeps others waiting for a moment now and
// then, and not all the time; and the names behind the one have their turn.
func TestANameThatLeadsNowhereIsAskedForNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		e := &Endpoints{Clock: clock.RealClock{}, Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			asked = append(asked, host)
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
			if took := time.Since(before); took > resolvePatience {
				t.Errorf("others waited for %s", took)
			}
			time.Sleep(time.Second)
		}
		if want := []string{"first.example", "second.example", "fine.example"}; !slices.Equal(asked, want) || at().String() != "172.16.2.9:1" {
			t.Errorf("asked for %q, and called at %s", asked, at())
		}
	})
}

// Whatever a name of the peer's leads to, our gateway sends nothing to what is ours;
// and as nothing is heard from there, the next endpoint has its turn.
func TestANameThatLeadsIntoThisClusterIsNotCalled(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := &Endpoints{Clock: clock, Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		return map[string][]netip.Addr{"pod.example": {addr("10.0.7.7")}, "node.example": {addr("::ffff:192.168.1.2")}, "service.example": {addr("10.96.0.10")}, "outside.example": {addr("198.51.100.2")}}[host], nil
	}}
	te := milan()
	te.Spec.Endpoints = []string{"pod.example:53", "node.example:10250", "service.example:53", "outside.example:51820", "172.16.2.1:51820"}
	for _, want := range []string{"lies within our own 10.0.0.0/16", "is our node rome-2", "lies within our own 10.96.0.0/12", "is our node rome-2", ""} {
		e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
		o := objects(te)
		o.Nodes[0].Status.Addresses = append(o.Nodes[0].Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.2"})
		in := Translate("rome-1", rome, o, e.Of).Input
		in.PrivateKey = model.PrivateKey{1}
		_, inside, refused, err := model.Gateway(in)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && (len(refused) > 0 || len(inside.Tunnel.Peers) != 1) ||
			want != "" && (len(inside.Tunnel.Peers) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Reason, want)) {
			t.Errorf("refused: %+v, not %q; called: %+v", refused, want, inside.Tunnel.Peers)
		}
		clock.Step(endpointPatience)
	}
}

func TestWhoStartsOrStandsByCallsWhereThePeerWasHeardLast(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := &Endpoints{Clock: clock}
	te := milan()
	te.Spec.Endpoints = []string{"172.16.2.1:51820", "172.16.2.2:51820"}
	follow := func(active bool, want string, wasHeard bool) {
		t.Helper()
		e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, active, func(string) bool { return false })
		if got, heard := e.Of(te); got.String() != want || heard != wasHeard {
			t.Errorf("called at %s, not %s; heard there: %v", got, want, heard)
		}
	}
	te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, Endpoint: "172.16.2.2:51820"}
	follow(true, "172.16.2.2:51820", true)
	// Who is active finds out itself, whatever was written last.
	clock.Step(endpointPatience)
	follow(true, "172.16.2.1:51820", false)
	follow(false, "172.16.2.2:51820", true)
	// It was heard at an address that it never announced.
	te.Status.Endpoint = "172.16.9.9:4000"
	follow(false, "172.16.9.9:4000", true)
	te.Status.Phase = v1alpha1.TunnelConnecting
	clock.Step(time.Hour)
	follow(false, "172.16.9.9:4000", true)
	follow(true, "172.16.9.9:4000", true)

	// Of another generation nothing is known.
	e = &Endpoints{Clock: clock}
	te.Status.Phase, te.Generation = v1alpha1.TunnelConnected, 2
	follow(true, "172.16.2.1:51820", false)

	// One that calls us may be called where it was heard.
	e = &Endpoints{Clock: clock}
	te.Spec.Endpoints, te.Status.ObservedGeneration = nil, 2
	follow(false, "172.16.9.9:4000", true)

	// A tunnel that is made anew has nothing of the one before.
	te.UID, te.Status = "another", v1alpha1.TunnelEndpointStatus{}
	e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
	if at, _ := e.Of(te); at.IsValid() {
		t.Errorf("called at %s, where the one before was heard", at)
	}
}
