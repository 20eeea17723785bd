// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"liqo.io/federation/netagent/model"
)

// Whatever was wanted before, and whatever failed or was made anew on the way,
// in the end there is what is wanted now, and nothing else.
func TestEveryHistoryEndsInWhatIsWanted(t *testing.T) {
	links := []string{model.OverlayLink, model.HostLink, model.GatewayLink, model.TunnelLink}
	anyInput := func(t *rapid.T) model.Input {
		var peers []model.Peer
		for n := byte(1); n <= 4; n++ {
			if rapid.Bool().Draw(t, "has peer") {
				p := peer(n)
				p.MTU = rapid.SampledFrom([]int{0, 1300, 1400}).Draw(t, "MTU")
				peers = append(peers, p)
			}
		}
		in := input(peers...)
		in.Gateways = []string{"rome-1", "rome-2"}
		in.Active = rapid.SampledFrom(in.Gateways).Draw(t, "active")
		in.Port = rapid.IntRange(51820, 51822).Draw(t, "port")
		return in
	}
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		for range rapid.IntRange(0, 4).Draw(t, "passes") {
			calls, failing := 0, rapid.IntRange(1, 80).Draw(t, "failing call")
			fail := func(int) error {
				if calls++; calls == failing {
					return errors.New("no luck")
				}
				return nil
			}
			n.outer.Fail, n.inner.Fail = fail, fail
			_, _ = n.apply(anyInput(t)) // it may fail, and may not
			n.outer.Fail, n.inner.Fail = nil, nil
			if rapid.Bool().Draw(t, "a link is made anew") {
				link := rapid.SampledFrom(links).Draw(t, "link")
				n.outer.Recreate(link)
				n.inner.Recreate(link)
			}
		}
		want, fresh := anyInput(t), newNode()
		for _, at := range []*node{n, fresh} {
			if _, err := at.apply(want); err != nil {
				t.Fatal(err)
			}
			if writes, err := at.apply(want); writes != 0 || err != nil {
				t.Fatalf("a second pass wrote %d times: %v", writes, err)
			}
		}
		if diff := cmp.Diff(fresh.dump(), n.dump()); diff != "" {
			t.Fatalf("(-fresh +after its history):\n%s", diff)
		}
	})
}
