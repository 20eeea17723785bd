// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

func at(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestMovesAreComparedWithCopiesByHandAndRestarts(t *testing.T) {
	samples := []moveSample{{
		content: "files", toRemote: true, byHand: 9 * time.Second, requested: at(0), firstPass: at(12),
		downtime: 3 * time.Second,
		phases: map[v1alpha1.MovePhase]time.Time{
			v1alpha1.MovePreparing: at(0), v1alpha1.MoveCopying: at(2), v1alpha1.MoveQuiescing: at(14),
			v1alpha1.MoveSucceeded: at(30),
		},
		// The PodDisruptionBudget prevented the eviction for three seconds.
		pod: podRestart{terminating: at(15), replaced: at(16), ready: at(23)},
	}}
	baseline := restarts{
		local:  []podRestart{{terminating: at(0), replaced: at(1), ready: at(9)}},
		remote: []podRestart{{terminating: at(0), replaced: at(5), ready: at(7)}},
	}
	want := []storageRow{
		{"files: rsync, and first pass of a move", "20.0 MB/s (20.0–20.0)", "18.0 MB/s (18.0–18.0)", "0.90× (0.90–0.90)", "≥ 0.9× ✓"},
		{"files: rsync, and whole move with its pods", "9.00 s (9.00–9.00)", "29.0 s (29.0–29.0)", "–", "–"},
		{"files, 1 % changed: outage of the pod, restart and move", "3.00 s (3.00–3.00)", "8.00 s (8.00–8.00)", "+5.0 s", "≤ 5 s more ✓"},
		{"files, 1 % changed: downtimeMilliseconds", "–", "3.00 s (3.00–3.00)", "–", "–"},
	}
	got := moveRows([]content{{name: "files", bytes: 180e6, files: 8}}, samples, baseline)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(storageRow{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := baseline.expected(false); got != 13 {
		t.Errorf("a pod that stops on the provider and starts locally takes %g s, want 13", got)
	}
}

func TestManySmallFilesAreCountedInsteadOfBytes(t *testing.T) {
	sample := moveSample{content: "small", byHand: 10 * time.Second, firstPass: at(20),
		phases: map[v1alpha1.MovePhase]time.Time{
			v1alpha1.MoveCopying: at(0),
		}}
	rows := moveRows([]content{{name: "small", bytes: 4e6, files: 100_000}}, []moveSample{sample}, restarts{})
	if got, want := rows[0].federation, "5000 files/s (5000–5000)"; got != want {
		t.Errorf("the move copied %s, want %s", got, want)
	}
}

func TestClaimsAreComparedWithTheSameClass(t *testing.T) {
	got := provisioningRows("node", provisioned{figures.Series{0.1}, figures.Series{2}},
		provisioned{figures.Series{0.4}, figures.Series{3}})
	want := []storageRow{
		{"node: claim created → Bound", "0.10 s (0.10–0.10)", "0.40 s (0.40–0.40)", "4.00×", "≤ 3× ✗"},
		{"node: claim created → pod Ready", "2.00 s (2.00–2.00)", "3.00 s (3.00–3.00)", "1.50×", "–"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(storageRow{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestRequestsOfClaimsBelongToTheirCreationOrDeletion(t *testing.T) {
	kinds := []claimKind{{name: "local"}, {name: "offloaded"}}
	windows := []claimWindows{
		{"local", window{at(0), at(1)}, window{at(1), at(2)}},
		{"offloaded", window{at(2), at(3)}, window{at(3), at(4)}},
	}
	requests := []harness.Request{{Received: at(0.5), Resource: "leases"}}
	for second, n := range []int{10, 20, 30, 10, 50} {
		for range n {
			requests = append(requests, harness.Request{Received: at(float64(second) + 0.5)})
		}
	}
	want := []storageRow{
		{"a pod without a claim, created: requests at both API servers", "1.00 (1.00–1.00)", "3.00 (3.00–3.00)", "3.00×", "–"},
		{"a pod without a claim, deleted with its claim: requests at both API servers", "2.00 (2.00–2.00)", "1.00 (1.00–1.00)", "0.50×", "–"},
	}
	if diff := cmp.Diff(want, claimRows(kinds, windows, requests), cmp.AllowUnexported(storageRow{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestRestartEndsWhenTheNextPodIsReady(t *testing.T) {
	pod := func(uid types.UID, ended, ready bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: movingPod, UID: uid}}
		if ended {
			pod.DeletionTimestamp = &metav1.Time{Time: at(1)}
		}
		if ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return pod
	}
	log := &restartLog{done: make(chan struct{})}
	other := pod("other", true, true)
	other.Name = "other"
	for _, seen := range []*corev1.Pod{other, pod("1", false, true), pod("1", true, true), pod("2", false, false)} {
		log.seen(seen)
	}
	select {
	case <-log.done:
		t.Fatal("the restart ended before the next pod was Ready")
	default:
	}
	log.seen(pod("2", false, true))
	log.seen(pod("2", false, true))
	restarted, err := log.wait(t.Context())
	if err != nil || restarted.terminating.IsZero() || restarted.stop() < 0 || restarted.start() < 0 {
		t.Errorf("the restart is %+v, error %v", restarted, err)
	}
}
