// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/test/fakes"
)

// paths has the moves whose process ends at each write, by the clusters of the source and of the target.
var paths = []struct {
	name     string
	strategy v1alpha1.MoveStrategy
	prepare  func(*world)
}{
	{"between nodes", v1alpha1.MoveOnline, func(*world) {}},
	{"between nodes, offline", v1alpha1.MoveOffline, func(*world) {}},
	{"from a provider, which keeps the source", v1alpha1.MoveOnline, func(w *world) {
		w.storedOnMilan()
		w.keepsSource()
	}},
	{"to a provider", v1alpha1.MoveOnline, (*world).movesToMilan},
	{"within a provider, offline", v1alpha1.MoveOffline, func(w *world) {
		w.storedOnMilan()
		w.movesToMilan()
	}},
}

// fromProvider is the index in paths of the move whose source is on a provider.
const fromProvider = 2

// every is the number of writes between two ends of the process in a test. It is 1 if the environment variable SAGA is
// all, which takes minutes.
func every() int {
	if os.Getenv("SAGA") == "all" {
		return 1
	}
	return 13
}

// newPath returns a cluster in which one of paths is requested. The provider of the source reports that no pod uses the
// volume.
func newPath(t *testing.T, path int) *world {
	t.Helper()
	spec := online()
	spec.Strategy = paths[path].strategy
	w := newWorld(t, spec)
	paths[path].prepare(w)
	w.unused = true
	w.settle()
	return w
}

// moves runs a move until it has succeeded, and fails the test unless it is complete.
func (w *world) moves() {
	w.t.Helper()
	w.until(v1alpha1.MoveSucceeded)
	w.settle()
	w.assertBoundTo(w.targetName())
	if w.keptSource {
		w.assertNoFence()
	}
}

// keepsSource requests that the move retains the source.
func (w *world) keepsSource() {
	w.t.Helper()
	vv := w.virtualVolume()
	vv.Spec.Move.KeepSource = true
	w.must(w.kube.Update(w.t.Context(), vv))
	w.keptSource = true
}

// assertNoFence fails the test if a ShadowVolumeClaim on milan has the fence of a move.
func (w *world) assertNoFence() {
	w.t.Helper()
	for _, claim := range w.shadows() {
		if claim.Spec.Fence != "" {
			w.t.Errorf("ShadowVolumeClaim %s has fence %s", claim.Name, claim.Spec.Fence)
		}
	}
}

func (w *world) shadows() []v1alpha1.ShadowVolumeClaim {
	w.t.Helper()
	if w.provider == nil {
		return nil
	}
	list, err := w.provider.FederationV1alpha1().ShadowVolumeClaims("").List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

func TestMoveSurvivesTheEndOfItsProcessAtEachWrite(t *testing.T) {
	for path := range paths {
		whole := newPath(t, path)
		whole.moves()
		writes := len(whole.kube.Writes)
		if writes < 20 {
			t.Fatalf("%s: a move has %d writes", paths[path].name, writes)
		}
		for _, done := range []bool{false, true} {
			for at := 0; at < writes; at += every() {
				t.Run(fmt.Sprintf("%s, write %d, done %t", paths[path].name, at, done), func(t *testing.T) {
					w := newPath(t, path)
					w.kube.Kill(at, done)
					w.moves()
				})
			}
		}
	}
}

func TestRollbackSurvivesTheEndOfItsProcessAtEachWrite(t *testing.T) {
	for path := range paths {
		whole := newPath(t, path)
		whole.stopAt(v1alpha1.MoveFinalCopy)
		before := len(whole.kube.Writes)
		whole.rollsBack()
		for at := before; at < len(whole.kube.Writes); at += every() {
			for _, done := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, write %d, done %t", paths[path].name, at-before, done), func(t *testing.T) {
					w := newPath(t, path)
					w.stopAt(v1alpha1.MoveFinalCopy)
					w.kube.Kill(at, done)
					w.rollsBack()
				})
			}
		}
	}
}

// rollsBack cancels a move and runs it until it has ended. It fails the test unless the claim uses the source as
// before.
func (w *world) rollsBack() {
	w.t.Helper()
	w.cancel()
	w.until(v1alpha1.MoveCancelled)
	w.settle()
	w.assertBoundTo(sourceName)
	w.assertNoFence()
}

// TestMoveSurvivesTheEndOfItsProcessAtEachWriteToTheProvider ends the process when it sets and when it removes the
// fence of the source, in a move that succeeds and in one that is cancelled.
func TestMoveSurvivesTheEndOfItsProcessAtEachWriteToTheProvider(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		for number := range 2 {
			for _, done := range []bool{false, true} {
				t.Run(fmt.Sprintf("cancelled %t, write %d, done %t", cancelled, number, done), func(t *testing.T) {
					w := newPath(t, fromProvider)
					killed := w.killAtProvider(number, done)
					if cancelled {
						w.stopAt(v1alpha1.MoveFinalCopy)
						w.rollsBack()
					} else {
						w.moves()
					}
					if !*killed {
						t.Error("the process did not end")
					}
				})
			}
		}
	}
}

// killAtProvider ends the process at the write to milan with this number, counted from 0: after the write if done is
// true, and otherwise before it. It returns whether that has happened.
func (w *world) killAtProvider(number int, done bool) *bool {
	w.t.Helper()
	writes, killed := 0, false
	fence := func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "" {
			return false, nil, nil
		}
		writes++
		if writes != number+1 {
			return false, nil, nil
		}
		killed, w.dead = true, true
		if done {
			if _, _, err := clienttesting.ObjectReaction(w.provider.Tracker())(action); err != nil {
				w.t.Error(err)
			}
		}
		return true, nil, kittest.ErrKilled
	}
	fakes.React(w.provider, "patch", "shadowvolumeclaims", fence)
	return &killed
}
