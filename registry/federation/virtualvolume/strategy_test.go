// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
)

func TestMovesWithoutAnIDGetOne(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strategy := newStrategy(scheme)
	volume := func(id, cluster string, phase federation.MovePhase) *federation.VirtualVolume {
		v := &federation.VirtualVolume{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop"}}
		v.Spec.Move = &federation.RequestedMove{ID: id, MoveSpec: federation.MoveSpec{
			Target: federation.MoveTarget{ClusterName: cluster}, Strategy: federation.MoveOnline, Verify: federation.VerifyFull,
		}}
		if phase != "" {
			v.Status.Move = &federation.MoveProgress{ID: id, Phase: phase}
		}
		return v
	}
	created := volume("", "milan", "")
	strategy.PrepareForCreate(t.Context(), created)
	if errs := strategy.Validate(t.Context(), created); len(errs) > 0 || created.Spec.Move.ID == "" {
		t.Errorf("a new volume has the move %q: %v", created.Spec.Move.ID, errs)
	}
	none := volume("", "", "")
	none.Spec.Move = nil
	for _, test := range []struct {
		name     string
		old, new *federation.VirtualVolume
		want     string
	}{
		{"the first move", none, volume("", "milan", ""), "a new id"},
		{"a move with an id", none, volume("given", "milan", ""), "given"},
		{"the same move applied again", volume("first", "milan", federation.MoveCopying), volume("", "milan", ""), "first"},
		{"a move that changes while it runs", volume("first", "milan", federation.MoveCopying), volume("", "rome", ""),
			"first"},
		{"the same move after it ended", volume("first", "milan", federation.MoveFailed), volume("", "milan", ""), "first"},
		{"another move after one that ended", volume("first", "milan", federation.MoveFailed), volume("", "rome", ""),
			"a new id"},
		{"another move that kept the id", volume("first", "milan", federation.MoveSucceeded), volume("first", "rome", ""),
			"a new id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.new.ResourceVersion = "1"
			before := ""
			if test.old.Spec.Move != nil {
				before = test.old.Spec.Move.ID
			}
			strategy.PrepareForUpdate(t.Context(), test.new, test.old)
			got := test.new.Spec.Move.ID
			if test.want == "a new id" && (got == "" || got == before) || test.want != "a new id" && got != test.want {
				t.Errorf("the id is %q, want %s", got, test.want)
			}
			same := apiequality.Semantic.DeepEqual(test.new.Spec, test.old.Spec)
			if same != (test.new.Generation == test.old.Generation) {
				t.Errorf("the generation is %d after %d", test.new.Generation, test.old.Generation)
			}
		})
	}
}
