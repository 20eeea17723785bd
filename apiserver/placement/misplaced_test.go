// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/test/placements"
)

func TestPodsAreMisplacedWhereTheyMayNoLongerRun(t *testing.T) {
	providers := []placement.Provider{
		placements.Provider("milan", "north"), placements.Provider("bari", "south"),
		// The provider has two virtual nodes with different labels; each is matched by its own labels.
		placements.Provider("turin", "north", func(l *placement.Provider) {
			l.VirtualNodes = append(l.VirtualNodes,
				&v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-turin-2",
					Labels: map[string]string{"region": "south"}}})
		}),
		// This provider is being unpeered.
		placements.Provider("leaving", "north",
			func(l *placement.Provider) { l.Cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }),
	}
	nodes := map[string]*corev1.Node{
		"worker": {ObjectMeta: metav1.ObjectMeta{Name: "worker", Labels: map[string]string{"region": "north"}}},
		// This Node and its VirtualNode have different labels. The selector must match the labels of
		// the Node.
		"liqo-bari": {ObjectMeta: metav1.ObjectMeta{Name: "liqo-bari", Labels: map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode, "region": "islands"}}},
	}
	find := func(name string) *corev1.Node { return nodes[name] }
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	with := func(
		spec *v1alpha1.NamespaceOffloadingSpec, strategy v1alpha1.PodOffloadingStrategy,
	) *v1alpha1.NamespaceOffloadingSpec {
		spec.PodOffloadingStrategy = strategy
		return spec
	}
	const local, remote, selector = "is Local", "is Remote", "spec.clusterSelector"
	for _, test := range []struct {
		name    string
		spec    *v1alpha1.NamespaceOffloadingSpec
		pod     *corev1.Pod
		message string
	}{
		{"anywhere, on a local node", with(placements.InRegion(), v1alpha1.LocalAndRemote), placements.PodOn("worker"), ""},
		{"anywhere, on a virtual node", with(placements.InRegion(), v1alpha1.LocalAndRemote), placements.PodOn("liqo-milan"), ""},
		{"no strategy is both", placements.InRegion(), placements.PodOn("liqo-milan"), ""},
		{"Local, on a local node", with(placements.InRegion("north"), v1alpha1.Local), placements.PodOn("worker"), ""},
		{"Local, on a virtual node", with(placements.InRegion(), v1alpha1.Local), placements.PodOn("liqo-milan"), local},
		{"Local, on a Node with the label of virtual nodes", with(placements.InRegion(), v1alpha1.Local), placements.PodOn("liqo-bari"), local},
		{"Remote, on a local node", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker"), remote},
		{"Remote, on a Node that is gone", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("old-worker"), remote},
		{"Remote, on a local node that the selector matches", with(placements.InRegion("north"), v1alpha1.Remote), placements.PodOn("worker"), remote},
		{"Remote, on a virtual node", with(placements.InRegion("north"), v1alpha1.Remote), placements.PodOn("liqo-milan"), ""},
		{"selected", with(placements.InRegion("north"), v1alpha1.LocalAndRemote), placements.PodOn("liqo-milan"), ""},
		{"a local node is not selected by anything", with(placements.InRegion("south"), v1alpha1.LocalAndRemote), placements.PodOn("worker"), ""},
		{"not selected", with(placements.InRegion("south"), v1alpha1.LocalAndRemote), placements.PodOn("liqo-milan"), selector},
		{"not selected, Remote", with(placements.InRegion("south"), v1alpha1.Remote), placements.PodOn("liqo-milan"), selector},
		{"labels of the Node that no longer match", with(placements.InRegion("south"), v1alpha1.LocalAndRemote), placements.PodOn("liqo-bari"), selector},
		{"labels of the Node that match", with(placements.InRegion("islands"), v1alpha1.LocalAndRemote), placements.PodOn("liqo-bari"), ""},
		{"the other virtual node of a selected cluster", with(placements.InRegion("north"), v1alpha1.LocalAndRemote), placements.PodOn("liqo-turin-2"), selector},
		{"a cluster that is unpeered", with(placements.InRegion("north"), v1alpha1.LocalAndRemote), placements.PodOn("liqo-leaving"), ""},

		{"nowhere yet", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn(""), ""},
		{"finished", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker", finished), ""},
		{"terminating", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker", terminating), ""},
		{"static", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker", mirror), ""},
		{"of a DaemonSet", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker", placements.OwnedBy("apps/v1", "DaemonSet")), ""},
		{"of a DaemonSet of another API group", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker", placements.OwnedBy("example.com/v1", "DaemonSet")), remote},
		{"of a ReplicaSet", with(placements.InRegion(), v1alpha1.Remote), placements.PodOn("worker", placements.OwnedBy("apps/v1", "ReplicaSet")), remote},
	} {
		t.Run(test.name, func(t *testing.T) {
			placed, err := placement.NewPlacement(test.spec, providers, find)
			if err != nil {
				t.Fatal(err)
			}
			if got := placed.Misplaced(test.pod); (got == "") != (test.message == "") || !strings.Contains(got, test.message) {
				t.Errorf("got %q, want %q", got, test.message)
			} else if got != "" && placement.PlacesAnywhere(test.spec) {
				t.Errorf("anywhere, and yet misplaced: %q", got)
			}
		})
	}
}

func TestPlacesAnywhereWithoutStrategyAndSelector(t *testing.T) {
	for _, test := range []struct {
		strategy v1alpha1.PodOffloadingStrategy
		spec     *v1alpha1.NamespaceOffloadingSpec
		want     bool
	}{
		{"", placements.InRegion(), true}, {v1alpha1.LocalAndRemote, placements.InRegion(), true},
		{v1alpha1.LocalAndRemote, placements.InRegion("north"), false}, {v1alpha1.Local, placements.InRegion(), false}, {v1alpha1.Remote, placements.InRegion(), false},
	} {
		test.spec.PodOffloadingStrategy = test.strategy
		if got := placement.PlacesAnywhere(test.spec); got != test.want {
			t.Errorf("%+v: got %v", test.spec, got)
		}
	}
}

func TestUnfinishedPodsKeepTheirNamespaceOffloaded(t *testing.T) {
	milan := placements.Provider("milan", "north")
	pods := []*corev1.Pod{
		placements.PodOn("liqo-milan"), placements.PodOn("liqo-bari"), placements.PodOn("worker"), placements.PodOn(""),
		placements.PodOn("liqo-milan", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }),
		placements.PodOn("liqo-milan", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		placements.PodOn("liqo-milan", placements.OwnedBy("apps/v1", "DaemonSet")),
	}
	if got := milan.PodsAt(pods); got != 3 {
		t.Errorf("%d pods, want 3", got)
	}
}
