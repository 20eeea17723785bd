// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func podOn(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web", Controller: ptr.To(true)}}
	}
}

func TestPodsAreMisplacedWhereTheyMayNoLongerRun(t *testing.T) {
	lenders := []Lender{
		aLender("milan", "north"), aLender("bari", "south"),
		// One cluster with two virtual nodes, of which each counts for itself.
		aLender("turin", "north", func(l *Lender) {
			l.VirtualNodes = append(l.VirtualNodes, &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-turin-2", Labels: map[string]string{"region": "south"}}})
		}),
		// Who is leaving drains its nodes itself.
		aLender("leaving", "north", func(l *Lender) { l.Cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }),
	}
	nodes := map[string]*corev1.Node{
		"worker": {ObjectMeta: metav1.ObjectMeta{Name: "worker", Labels: map[string]string{"region": "north"}}},
		// The labels of a Node that is there count, not those that it was given.
		"liqo-bari": {ObjectMeta: metav1.ObjectMeta{Name: "liqo-bari", Labels: map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode, "region": "islands"}}},
	}
	find := func(name string) *corev1.Node { return nodes[name] }
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	with := func(spec *v1alpha1.NamespaceOffloadingSpec, strategy v1alpha1.PodOffloadingStrategy) *v1alpha1.NamespaceOffloadingSpec {
		spec.PodOffloadingStrategy = strategy
		return spec
	}
	const local, remote, selector = "is Local", "is Remote", "spec.clusterSelector"
	for _, test := range []struct {
		name string
		spec *v1alpha1.NamespaceOffloadingSpec
		pod  *corev1.Pod
		says string
	}{
		{"anywhere, here", with(inRegion(), v1alpha1.LocalAndRemote), podOn("worker"), ""},
		{"anywhere, there", with(inRegion(), v1alpha1.LocalAndRemote), podOn("liqo-milan"), ""},
		{"no strategy is both", inRegion(), podOn("liqo-milan"), ""},
		{"Local, here", with(inRegion("north"), v1alpha1.Local), podOn("worker"), ""},
		{"Local, there", with(inRegion(), v1alpha1.Local), podOn("liqo-milan"), local},
		{"Local, on a Node that says itself that it is virtual", with(inRegion(), v1alpha1.Local), podOn("liqo-bari"), local},
		{"Remote, here", with(inRegion(), v1alpha1.Remote), podOn("worker"), remote},
		{"Remote, on a Node that is gone", with(inRegion(), v1alpha1.Remote), podOn("old-worker"), remote},
		{"Remote, here, where the selector would match", with(inRegion("north"), v1alpha1.Remote), podOn("worker"), remote},
		{"Remote, there", with(inRegion("north"), v1alpha1.Remote), podOn("liqo-milan"), ""},
		{"selected", with(inRegion("north"), v1alpha1.LocalAndRemote), podOn("liqo-milan"), ""},
		{"a local node is not selected by anything", with(inRegion("south"), v1alpha1.LocalAndRemote), podOn("worker"), ""},
		{"not selected", with(inRegion("south"), v1alpha1.LocalAndRemote), podOn("liqo-milan"), selector},
		{"not selected, Remote", with(inRegion("south"), v1alpha1.Remote), podOn("liqo-milan"), selector},
		{"labels of the Node that no longer match", with(inRegion("south"), v1alpha1.LocalAndRemote), podOn("liqo-bari"), selector},
		{"labels of the Node that match", with(inRegion("islands"), v1alpha1.LocalAndRemote), podOn("liqo-bari"), ""},
		{"the other virtual node of a selected cluster", with(inRegion("north"), v1alpha1.LocalAndRemote), podOn("liqo-turin-2"), selector},
		{"a cluster that is unpeered", with(inRegion("north"), v1alpha1.LocalAndRemote), podOn("liqo-leaving"), ""},

		{"nowhere yet", with(inRegion(), v1alpha1.Remote), podOn(""), ""},
		{"finished", with(inRegion(), v1alpha1.Remote), podOn("worker", finished), ""},
		{"terminating", with(inRegion(), v1alpha1.Remote), podOn("worker", terminating), ""},
		{"static", with(inRegion(), v1alpha1.Remote), podOn("worker", mirror), ""},
		{"of a DaemonSet", with(inRegion(), v1alpha1.Remote), podOn("worker", ownedBy("apps/v1", "DaemonSet")), ""},
		{"of a DaemonSet of somebody else", with(inRegion(), v1alpha1.Remote), podOn("worker", ownedBy("example.com/v1", "DaemonSet")), remote},
		{"of a ReplicaSet", with(inRegion(), v1alpha1.Remote), podOn("worker", ownedBy("apps/v1", "ReplicaSet")), remote},
	} {
		t.Run(test.name, func(t *testing.T) {
			placement, err := NewPlacement(test.spec, lenders, find)
			if err != nil {
				t.Fatal(err)
			}
			if got := placement.Misplaced(test.pod); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("got %q, want something that says %q", got, test.says)
			} else if got != "" && PlacesAnywhere(test.spec) {
				t.Errorf("anywhere, and yet misplaced: %q", got)
			}
		})
	}
}

func TestAnywhereIsEveryNodeAndEveryCluster(t *testing.T) {
	for _, test := range []struct {
		strategy v1alpha1.PodOffloadingStrategy
		spec     *v1alpha1.NamespaceOffloadingSpec
		want     bool
	}{
		{"", inRegion(), true}, {v1alpha1.LocalAndRemote, inRegion(), true},
		{v1alpha1.LocalAndRemote, inRegion("north"), false}, {v1alpha1.Local, inRegion(), false}, {v1alpha1.Remote, inRegion(), false},
	} {
		test.spec.PodOffloadingStrategy = test.strategy
		if got := PlacesAnywhere(test.spec); got != test.want {
			t.Errorf("%+v: got %v", test.spec, got)
		}
	}
}

func TestPodsThatHaveNotFinishedKeepANamespaceThere(t *testing.T) {
	milan := aLender("milan", "north")
	pods := []*corev1.Pod{
		podOn("liqo-milan"), podOn("liqo-bari"), podOn("worker"), podOn(""),
		podOn("liqo-milan", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }),
		podOn("liqo-milan", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		podOn("liqo-milan", ownedBy("apps/v1", "DaemonSet")),
	}
	if got := milan.PodsAt(pods); got != 3 {
		t.Errorf("%d pods, want 3", got)
	}
}
