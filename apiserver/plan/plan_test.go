// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/test/placements"
)

const romeID = "0c9e8d7f-1a2b-4c3d-8e4f-5a6b7c8d9e0f"

func TestOffloadPlanHasTheActionForEachCluster(t *testing.T) {
	remoteName := naming.UniqueRemoteNamespace("web", "rome", romeID)
	gone := metav1.NewTime(time.Unix(0, 0))
	providers := []placement.Provider{
		placements.Provider("turin", "north"), placements.Provider("milan", "north"), placements.Provider("bari", "south"),
		placements.Provider("leaving", "north", func(l *placement.Provider) { l.Cluster.DeletionTimestamp = &gone }),
		placements.Provider("lodi", "north",
			func(l *placement.Provider) { l.Cluster.Spec.Outgoing = v1alpha1.PeeringDisabled }),
		placements.Provider("new", "north", func(l *placement.Provider) { l.VirtualNodes = nil }),
	}
	pods := []*corev1.Pod{placements.PodOn("worker"), placements.PodOn(""), placements.PodOn("liqo-milan"),
		placements.PodOn("liqo-bari"), placements.PodOn("liqo-bari")}
	evicting := func(spec *v1alpha1.NamespaceOffloadingSpec) *v1alpha1.NamespaceOffloadingSpec {
		spec.Enforcement = v1alpha1.Evict
		return spec
	}
	const noMatch = "No virtual node of the cluster matches the selector."
	no := func(name, message string) v1alpha1.PlannedCluster {
		return v1alpha1.PlannedCluster{Name: name, Message: message, Action: v1alpha1.PlanNone}
	}
	leaves := func(name, message string) v1alpha1.PlannedCluster {
		return v1alpha1.PlannedCluster{Name: name, Message: message, Action: v1alpha1.PlanDelete, NamespaceName: remoteName}
	}
	yes := func(name string, action v1alpha1.PlanAction) v1alpha1.PlannedCluster {
		return v1alpha1.PlannedCluster{Name: name, Selected: true, NamespaceName: remoteName, Action: action}
	}
	rest := []v1alpha1.PlannedCluster{no("leaving", "The cluster is being unpeered."),
		no("lodi", "The outgoing peering is not enabled."), no("new", "The cluster has no virtual node.")}
	ordered := func(
		bari v1alpha1.PlannedCluster, others []v1alpha1.PlannedCluster, milan, turin v1alpha1.PlannedCluster,
	) []v1alpha1.PlannedCluster {
		return []v1alpha1.PlannedCluster{bari, others[0], others[1], milan, others[2], turin}
	}
	unoffloaded := "The namespace is unoffloaded."
	held := leaves("bari", noMatch+" Its remote namespace stays until its pods have left.")
	held.Action = v1alpha1.PlanNone
	for _, test := range []struct {
		name          string
		is, requested *v1alpha1.NamespaceOffloadingSpec
		action        v1alpha1.PlanAction
		clusters      []v1alpha1.PlannedCluster
		misplaced     int32
		evicted       int32
	}{
		{
			name: "a first request", requested: placements.InRegion("north"), action: v1alpha1.PlanCreate,
			clusters: ordered(no("bari", noMatch), rest, yes("milan", v1alpha1.PlanCreate),
				yes("turin", v1alpha1.PlanCreate)), misplaced: 2,
		},
		{
			name: "the same again", is: placements.InRegion("north"), requested: placements.InRegion("north"),
			action: v1alpha1.PlanNone,
			clusters: ordered(no("bari", noMatch), rest, yes("milan", v1alpha1.PlanNone),
				yes("turin", v1alpha1.PlanNone)), misplaced: 2,
		},
		{
			name: "another selector", is: placements.InRegion("south"), requested: placements.InRegion("north"),
			action:   v1alpha1.PlanChange,
			clusters: ordered(held, rest, yes("milan", v1alpha1.PlanCreate), yes("turin", v1alpha1.PlanCreate)), misplaced: 2,
		},
		{
			name: "another selector that is enforced", is: placements.InRegion("south"),
			requested: evicting(placements.InRegion("north")), action: v1alpha1.PlanChange,
			clusters: ordered(leaves("bari", noMatch), rest, yes("milan", v1alpha1.PlanCreate),
				yes("turin", v1alpha1.PlanCreate)), misplaced: 2, evicted: 2,
		},
		{
			name: "everywhere", is: placements.InRegion("south"), requested: placements.InRegion(), action: v1alpha1.PlanChange,
			clusters: ordered(yes("bari", v1alpha1.PlanNone), rest, yes("milan", v1alpha1.PlanCreate),
				yes("turin", v1alpha1.PlanCreate)),
		},
		{
			name: "unoffloaded", is: placements.InRegion("north"), action: v1alpha1.PlanDelete,
			clusters: ordered(no("bari", unoffloaded),
				[]v1alpha1.PlannedCluster{no("leaving", unoffloaded), no("lodi", unoffloaded), no("new", unoffloaded)},
				leaves("milan", unoffloaded), leaves("turin", unoffloaded)), evicted: 3,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Offload{Namespace: "web", Current: test.is, Requested: test.requested, ClusterName: "rome",
				ClusterID: romeID, Providers: providers, Nodes: placements.NoNodes, Pods: pods}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if plan.Action != test.action || plan.EvictedPods != test.evicted || plan.MisplacedPodCount != test.misplaced ||
				(len(plan.Unknown) == 0) != (test.action == v1alpha1.PlanNone) {
				t.Errorf("the plan is to %s, to evict %d of %d misplaced pods, and %q is unknown", plan.Action, plan.EvictedPods,
					plan.MisplacedPodCount, plan.Unknown)
			}
			if diff := cmp.Diff(test.clusters, plan.Clusters); diff != "" {
				t.Errorf("the clusters differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOffloadPlanNamesTheFirstMisplacedPods(t *testing.T) {
	var pods []*corev1.Pod
	for range maxMisplacedPods + 1 {
		pods = append(pods, placements.PodOn("worker"))
	}
	for enforcement, action := range map[v1alpha1.PlacementEnforcement]v1alpha1.PlanAction{
		v1alpha1.Warn: v1alpha1.PlanNone, v1alpha1.Evict: v1alpha1.PlanDelete} {
		requested := &v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote, Enforcement: enforcement}
		plan, err := Offload{Namespace: "web", Requested: requested, ClusterName: "rome", ClusterID: romeID,
			Nodes: placements.NoNodes, Pods: pods}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if plan.MisplacedPodCount != maxMisplacedPods+1 || len(plan.MisplacedPods) != maxMisplacedPods {
			t.Errorf("%d pods are counted and %d named", plan.MisplacedPodCount, len(plan.MisplacedPods))
		}
		first := plan.MisplacedPods[0]
		if first.Name != "web" || first.NodeName != "worker" || first.Action != action || first.Message == "" {
			t.Errorf("%s: the first is %+v", enforcement, first)
		}
	}
}

func TestOffloadPlanNamesPodsThatWaitForNodesOfTheEarlierSpec(t *testing.T) {
	for enforcement, evicted := range map[v1alpha1.PlacementEnforcement]int32{v1alpha1.Warn: 0, v1alpha1.Evict: 1} {
		requested := &v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote, Enforcement: enforcement}
		pods := []*corev1.Pod{placements.PodOn("", placements.OwnedBy("apps/v1", "ReplicaSet")), placements.PodOn("")}
		plan, err := Offload{Namespace: "web", Requested: requested, ClusterName: "rome", ClusterID: romeID,
			Nodes: placements.NoNodes, Pods: pods}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if plan.MisplacedPodCount != 1 || plan.EvictedPods != evicted || len(plan.MisplacedPods) != 1 ||
			plan.MisplacedPods[0].NodeName != "" {
			t.Errorf("%s: %d pods are counted, %d evicted: %+v", enforcement, plan.MisplacedPodCount, plan.EvictedPods,
				plan.MisplacedPods)
		}
	}
}

func TestOffloadPlanReportsPodsThatAProviderRefuses(t *testing.T) {
	pod := func(name string, spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}, Spec: spec}
	}
	tolerating := func(keys ...string) corev1.PodSpec {
		var spec corev1.PodSpec
		for _, key := range keys {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		return spec
	}
	grace, gvisor := int64(7200), "gvisor"
	daemon := pod("daemon", tolerating("gpu"))
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", APIVersion: "apps/v1", Controller: new(bool)}}
	*daemon.OwnerReferences[0].Controller = true
	networked := pod("networked", corev1.PodSpec{})
	networked.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "storage"}
	hour := int64(3600)
	strict := []*v1alpha1.PodPolicy{{MaxGracePeriodSeconds: &hour}}
	local := placements.InRegion()
	local.PodOffloadingStrategy = v1alpha1.Local
	for _, test := range []struct {
		name      string
		requested *v1alpha1.NamespaceOffloadingSpec
		limits    []*v1alpha1.PodPolicy
		pod       *corev1.Pod
		// want is a part of the conflict; empty if there is none.
		want string
	}{
		{"a pod that tolerates the virtual node", placements.InRegion(), strict,
			pod("plain", tolerating(v1alpha1.TaintVirtualNode, "node.kubernetes.io/not-ready")), ""},
		{"a toleration", placements.InRegion(), strict, pod("gpu", tolerating("gpu")), "spec.tolerations[0].key"},
		{"a toleration that is permitted", placements.InRegion(), []*v1alpha1.PodPolicy{{Tolerations: []string{"gpu"}}},
			pod("gpu", tolerating("gpu")), ""},
		{"a RuntimeClass", placements.InRegion(), strict, pod("sandboxed", corev1.PodSpec{RuntimeClassName: &gvisor}),
			"spec.runtimeClassName"},
		{"an annotation", placements.InRegion(), strict, networked, "metadata.annotations[k8s.v1.cni.cncf.io/networks]"},
		{"a grace period", placements.InRegion(), strict,
			pod("slow", corev1.PodSpec{TerminationGracePeriodSeconds: &grace}), "spec.terminationGracePeriodSeconds"},
		{"a pod of a DaemonSet", placements.InRegion(), strict, daemon, ""},
		{"no limits", placements.InRegion(), nil, pod("gpu", tolerating("gpu")), ""},
		{"a namespace whose pods stay", local, strict, pod("gpu", tolerating("gpu")), ""},
		{"a cluster that is not selected", placements.InRegion("south"), strict, pod("gpu", tolerating("gpu")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Offload{Namespace: "web", Requested: test.requested, ClusterName: "rome", ClusterID: romeID,
				Providers: []placement.Provider{placements.Provider("milan", "north")}, Nodes: placements.NoNodes,
				Pods: []*corev1.Pod{test.pod}, Limits: map[string][]*v1alpha1.PodPolicy{"milan": test.limits}}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			reported := len(plan.Conflicts) == 1 && strings.HasPrefix(plan.Conflicts[0], "milan would refuse 1 pod(s)") &&
				strings.Contains(plan.Conflicts[0], test.want)
			if reported != (test.want != "") || len(plan.Conflicts) > 1 {
				t.Errorf("the conflicts are %q, want %q", plan.Conflicts, test.want)
			}
		})
	}
}

func TestOffloadPlanReportsReservedNames(t *testing.T) {
	requested := &v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.EnforceSameName}
	plan, err := Offload{Namespace: "default", Requested: requested, ClusterName: "rome", ClusterID: romeID,
		Nodes: placements.NoNodes}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Conflicts) != 1 {
		t.Errorf("the conflicts are %q", plan.Conflicts)
	}
}

func TestPeeringPlanStatesThatTheShapeOfTheOfferDeterminesNodeNames(t *testing.T) {
	cluster := func(outgoing v1alpha1.PeeringIntent, server string) *v1alpha1.ForeignCluster {
		return &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.ForeignClusterSpec{Outgoing: outgoing, Server: server}}
	}
	enabled := cluster(v1alpha1.PeeringEnabled, "https://milan.example.org")
	for _, test := range []struct {
		name               string
		current, requested *v1alpha1.ForeignCluster
		// unknown is true if the plan lists the names as unknown.
		unknown bool
	}{
		{"a first request", nil, enabled, true},
		{"another server", cluster(v1alpha1.PeeringEnabled, "https://old.example.org"), enabled, true},
		{"the same again", enabled, enabled, false},
		{"unpeering", enabled, cluster(v1alpha1.PeeringDisabled, "https://milan.example.org"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := Peer{Current: test.current, Requested: test.requested, ClusterID: romeID}.Plan()
			if diff := cmp.Diff("liqo-milan", plan.VirtualNode); diff != "" {
				t.Errorf("the name of the virtual node (-want +got):\n%s", diff)
			}
			unknown := slices.ContainsFunc(plan.Unknown, func(effect string) bool {
				return strings.Contains(effect, "PerNode") && strings.Contains(effect, "liqo-milan-1")
			})
			if unknown != test.unknown {
				t.Errorf("the plan lists %q as unknown; it has the names of virtual nodes: %t, want %t", plan.Unknown, unknown,
					test.unknown)
			}
		})
	}
}
