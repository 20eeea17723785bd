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

// kindOfMove is a move whose process ends at each write. prepare changes the cluster before the move is requested.
type kindOfMove struct {
	name     string
	strategy v1alpha1.MoveStrategy
	prepare  func(*world)
}

var fromProvider = kindOfMove{"from a provider, with the source kept", v1alpha1.MoveOnline, func(w *world) {
	w.storedOnMilan()
	w.keepsSource()
}}

var kindsOfMoves = []kindOfMove{
	{"between nodes", v1alpha1.MoveOnline, func(*world) {}},
	{"between nodes, offline", v1alpha1.MoveOffline, func(*world) {}},
	fromProvider,
	{"to a provider", v1alpha1.MoveOnline, (*world).movesToMilan},
	{"within a provider, offline", v1alpha1.MoveOffline, func(w *world) {
		w.storedOnMilan()
		w.movesToMilan()
	}},
}

// every is the number of writes between two ends of the process in a test. It is 1 if the environment variable SAGA is
// all, which takes minutes.
func every() int {
	if os.Getenv("SAGA") == "all" {
		return 1
	}
	return 13
}

// requested returns a cluster in which a move is requested. The provider of the source reports that no pod uses the
// volume.
func requested(t *testing.T, kind kindOfMove) *world {
	t.Helper()
	spec := online()
	spec.Strategy = kind.strategy
	w := newWorld(t, spec)
	kind.prepare(w)
	w.unused = true
	w.settle()
	return w
}

// completes runs a move until it has succeeded, and fails the test unless it is complete.
func (w *world) completes() {
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
	for _, kind := range kindsOfMoves {
		start := func(t *testing.T) *world { return requested(t, kind) }
		killAtEachWrite(t, kind.name, start, (*world).completes)
	}
}

func TestRollbackSurvivesTheEndOfItsProcessAtEachWrite(t *testing.T) {
	for _, kind := range kindsOfMoves {
		start := func(t *testing.T) *world {
			w := requested(t, kind)
			w.stopAt(v1alpha1.MoveFinalCopy)
			return w
		}
		killAtEachWrite(t, kind.name, start, (*world).rollsBack)
	}
}

// killAtEachWrite runs a move in clusters that start returns: once undisturbed, and then once for each write, at which
// the process ends, before it and after it.
func killAtEachWrite(t *testing.T, name string, start func(*testing.T) *world, run func(*world)) {
	t.Helper()
	whole := start(t)
	first, succeeded := len(whole.kube.Writes), map[int]bool{}
	fault := whole.kube.Fault
	whole.kube.Fault = func(write kittest.Write, done bool) error {
		succeeded[len(whole.kube.Writes)-1] = done
		return fault(write, done)
	}
	run(whole)
	if len(succeeded) < 10 {
		t.Fatalf("%s has %d writes", name, len(succeeded))
	}
	for at := first; at < len(whole.kube.Writes); at += every() {
		for _, done := range []bool{false, true} {
			if done && !succeeded[at] {
				continue
			}
			t.Run(fmt.Sprintf("%s, write %d, done %t", name, at-first, done), func(t *testing.T) {
				w := start(t)
				killed := w.kill(at, done)
				run(w)
				if !*killed {
					t.Error("the process did not end")
				}
			})
		}
	}
}

// kill ends the process at the write with this number, counted from 0: after the write if done is true, and otherwise
// before it. It returns whether that has happened.
func (w *world) kill(number int, done bool) *bool {
	fault, killed := w.kube.Fault, false
	w.kube.Fault = func(write kittest.Write, isDone bool) error {
		if !killed && len(w.kube.Writes) == number+1 && isDone == done {
			killed, w.dead = true, true
			return kittest.ErrKilled
		}
		return fault(write, isDone)
	}
	return &killed
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
					w := requested(t, fromProvider)
					killed := w.killAtProvider(number, done)
					if cancelled {
						w.stopAt(v1alpha1.MoveFinalCopy)
						w.rollsBack()
					} else {
						w.completes()
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
