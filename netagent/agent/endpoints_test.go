// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
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
		got := e.Of(te)
		if text := got.String(); got.IsValid() && text != want || !got.IsValid() && want != "" || changed != changes {
			t.Errorf("called at %s, not %q; changed: %v", got, want, changed)
		}
	}
	if e.Of(te).IsValid() {
		t.Error("a peer that nobody follows is called")
	}
	follow("172.16.2.1:51820", true)
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
	if e.Of(te).IsValid() {
		t.Error("a peer with other endpoints is called at the ones before")
	}
	follow("", false)
	te = milan()
	te.Spec.Endpoints = nil
	follow("", false)
	// One that is heard from says that it is called elsewhere from now on.
	heard = true
	te = milan()
	follow("172.16.2.1:51820", true)
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
		for !e.Of(te).IsValid() && time.Since(began) < time.Minute {
			before := time.Now()
			e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
			if took := time.Since(before); took > resolvePatience {
				t.Errorf("others waited for %s", took)
			}
			time.Sleep(time.Second)
		}
		if want := []string{"first.example", "second.example", "fine.example"}; !slices.Equal(asked, want) || e.Of(te).String() != "172.16.2.9:1" {
			t.Errorf("asked for %q, and called at %s", asked, e.Of(te))
		}
	})
}

func TestWhoStartsOrStandsByCallsWhereThePeerWasHeardLast(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := &Endpoints{Clock: clock}
	te := milan()
	te.Spec.Endpoints = []string{"172.16.2.1:51820", "172.16.2.2:51820"}
	follow := func(active bool, want string) {
		t.Helper()
		e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, active, func(string) bool { return false })
		if got := e.Of(te); got.String() != want {
			t.Errorf("called at %s, not %s", got, want)
		}
	}
	te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, Endpoint: "172.16.2.2:51820"}
	follow(true, "172.16.2.2:51820")
	// Who is active finds out itself, whatever was written last.
	clock.Step(endpointPatience)
	follow(true, "172.16.2.1:51820")
	follow(false, "172.16.2.2:51820")
	// It was heard at an address that it never announced.
	te.Status.Endpoint = "172.16.9.9:4000"
	follow(false, "172.16.9.9:4000")
	te.Status.Phase = v1alpha1.TunnelConnecting
	clock.Step(time.Hour)
	follow(false, "172.16.9.9:4000")
	follow(true, "172.16.9.9:4000")

	// Of another generation nothing is known.
	e = &Endpoints{Clock: clock}
	te.Status.Phase, te.Generation = v1alpha1.TunnelConnected, 2
	follow(true, "172.16.2.1:51820")

	// One that calls us may be called where it was heard.
	e = &Endpoints{Clock: clock}
	te.Spec.Endpoints, te.Status.ObservedGeneration = nil, 2
	follow(false, "172.16.9.9:4000")

	// A tunnel that is made anew has nothing of the one before.
	te.UID, te.Status = "another", v1alpha1.TunnelEndpointStatus{}
	e.Follow(t.Context(), []*v1alpha1.TunnelEndpoint{te}, true, func(string) bool { return false })
	if at := e.Of(te); at.IsValid() {
		t.Errorf("called at %s, where the one before was heard", at)
	}
}
