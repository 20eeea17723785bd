// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/netagent/kernel/fake"
	"liqo.io/federation/netagent/model"
)

// Changing a table takes several calls, and the agent may be terminated after each of them. The old jump stays
// until the new one is in place, and the next agent completes the change.
func TestJumpIsReplacedWithoutAGap(t *testing.T) {
	chain := func(name string) model.Chain {
		return model.Chain{Family: model.IPv4, Table: "filter", Name: name, Rules: []string{"-j DROP"}}
	}
	jump := func(name string) model.Jump {
		return model.Jump{Family: model.IPv4, Table: "filter", Base: "FORWARD", Chain: name}
	}
	state := func(name string) model.State {
		return model.State{
			Scope:  model.Scope{Families: []model.Family{model.IPv4}},
			Chains: []model.Chain{chain(name)}, Jumps: []model.Jump{jump(name)},
		}
	}
	failure := errors.New("the agent ended")
	completed := false
	for calls := 1; !completed; calls++ {
		k := fake.New()
		if _, err := New(k).chains(state("LIQO-OLD")); err != nil {
			t.Fatal(err)
		}
		last := k.Calls + calls
		k.Fail = func(call int) error {
			if call >= last {
				return failure
			}
			return nil
		}
		_, err := New(k).chains(state("LIQO-NEW"))
		completed = err == nil
		k.Fail = nil
		if _, jumps, err := k.Chains(model.IPv4); err != nil || len(jumps) == 0 {
			t.Errorf("after %d calls: jumps %v, error %v; no jump leads to a chain", calls-1, jumps, err)
		}
		if _, err := New(k).chains(state("LIQO-NEW")); err != nil {
			t.Fatalf("after %d calls, another agent: %v", calls-1, err)
		}
		chains, jumps, err := k.Chains(model.IPv4)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]model.Chain{chain("LIQO-NEW")}, chains); diff != "" {
			t.Errorf("after %d calls, chains (-want +got):\n%s", calls-1, diff)
		}
		if diff := cmp.Diff([]model.Jump{jump("LIQO-NEW")}, jumps); diff != "" {
			t.Errorf("after %d calls, jumps (-want +got):\n%s", calls-1, diff)
		}
	}
}
