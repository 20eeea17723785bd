// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/test/placements"
)

const namespace = "shop"

// apply returns a copy of a pod to which the patch of a decision was applied.
func apply(t *testing.T, decision placement.Decision, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	operations, err := json.Marshal(decision.Patch(pod))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(document)
	if err != nil {
		t.Fatalf("%v: patch %s", err, operations)
	}
	placed := &corev1.Pod{}
	if err := json.Unmarshal(patched, placed); err != nil {
		t.Fatal(err)
	}
	return placed
}

func offloading(
	strategy v1alpha1.PodOffloadingStrategy, selector []corev1.NodeSelectorTerm,
) *v1alpha1.NamespaceOffloading {
	return &v1alpha1.NamespaceOffloading{Spec: v1alpha1.NamespaceOffloadingSpec{
		PodOffloadingStrategy: strategy, ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: selector},
	}}
}

func offering(class string) []string {
	var ids []string
	for id, classes := range placements.Offers {
		if slices.Contains(classes, class) {
			ids = append(ids, id)
		}
	}
	return slices.Sorted(slices.Values(ids))
}

func inputOf(test placements.Case) placement.Input {
	provisioners := map[string]string{}
	for _, class := range placements.StorageClasses() {
		provisioners[class.Name] = class.Provisioner
	}
	input := placement.Input{
		Offloading: offloading(test.Strategy, test.Selector), Namespace: namespace, Pod: test.Pod(),
		CreatedByControllers: test.ByControllers, Offering: offering,
	}
	for _, claim := range test.Claims {
		input.Claims = append(input.Claims, placement.Claim{
			Name: claim.Name, Object: claim.Object(namespace), Volume: claim.Volume(namespace),
			Provisioner: provisioners[claim.Class],
		})
	}
	return input
}

func TestPodsWithClaimsArePlacedByTheirData(t *testing.T) {
	for _, test := range placements.Cases {
		t.Run(test.Name, func(t *testing.T) {
			input := inputOf(test)
			decision := placement.Decide(input)
			if test.Denied != "" {
				if !strings.Contains(decision.Denied, test.Denied) {
					t.Fatalf("denied with %q, want %q", decision.Denied, test.Denied)
				}
				return
			}
			if decision.Denied != "" {
				t.Fatalf("denied: %s", decision.Denied)
			}
			warned := strings.Join(decision.Warnings, " ")
			if (test.Warning == "") != (warned == "") || !strings.Contains(warned, test.Warning) {
				t.Errorf("got the warnings %q, want %q", warned, test.Warning)
			}
			placed := apply(t, decision, input.Pod)
			if diff := cmp.Diff(test.Nodes, placements.FittingNodes(t, placed)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			count := 0
			for _, gate := range placed.Spec.SchedulingGates {
				if gate.Name == v1alpha1.SchedulingGateMoving {
					count++
				}
			}
			if gated := count == 1; gated != test.Gated || count > 1 {
				t.Errorf("the pod has %d gates of a move, want it gated: %v", count, test.Gated)
			}
			if len(placed.Spec.SchedulingGates) < len(input.Pod.Spec.SchedulingGates) {
				t.Errorf("the pod lost a gate: %+v", placed.Spec.SchedulingGates)
			}
		})
	}
}

func TestPodsWithoutClaimsFollowStrategySelectorAndTheirAffinity(t *testing.T) {
	for _, strategy := range placements.Strategies {
		for selectorName, selector := range placements.Selectors {
			for affinityName, own := range placements.Affinities {
				t.Run(fmt.Sprintf("%s, %s, %s", strategy, selectorName, affinityName), func(t *testing.T) {
					pod := placements.Pod(own)
					placed := apply(t, placement.Decide(placement.Input{Offloading: offloading(strategy, selector), Pod: pod}), pod)
					for _, node := range placements.Nodes {
						want := placements.Allows(t, strategy, selector, own, node)
						if got := placements.Fits(t, placed, node); got != want {
							t.Errorf("fits %s: %v, want %v; affinity %+v", node.Name, got, want, placed.Spec.Affinity)
						}
					}
				})
			}
		}
	}
}

func TestPodsOfAnUnoffloadedNamespaceStayLocal(t *testing.T) {
	unoffloaded := offloading(v1alpha1.Remote, nil)
	unoffloaded.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	pod := placements.Pod(nil)
	placed := apply(t, placement.Decide(placement.Input{Offloading: unoffloaded, Pod: pod}), pod)
	if diff := cmp.Diff([]string{"worker", "worker-it"}, placements.FittingNodes(t, placed)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestPodWithoutNamespaceOffloadingIsDenied(t *testing.T) {
	decision := placement.Decide(placement.Input{Namespace: namespace, Pod: placements.Pod(nil)})
	if !strings.Contains(decision.Denied, "no NamespaceOffloading") {
		t.Errorf("got %+v", decision)
	}
}

func TestVolumeOfAnotherClaimPlacesNoPod(t *testing.T) {
	claim := placements.Claim{Name: "data", Class: placements.VirtualClass, Data: placements.LocalData}
	other := claim.Volume("elsewhere")
	decision := placement.Decide(placement.Input{
		Offloading: offloading(v1alpha1.LocalAndRemote, nil), Namespace: namespace, Pod: placements.Pod(nil),
		Claims: []placement.Claim{{
			Name: "data", Object: claim.Object(namespace), Volume: other, Provisioner: v1alpha1.StorageProvisioner,
		}},
	})
	if decision.Terms != nil || decision.Denied != "" {
		t.Errorf("got %+v", decision)
	}
}

func TestPatchKeepsOtherTolerationsAndAffinity(t *testing.T) {
	for name, tolerations := range map[string][]corev1.Toleration{
		"none":                 nil,
		"another":              {{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		"the added toleration": {placement.Toleration},
		"the added toleration without an operator": {
			{Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute},
		},
		"the added toleration with tolerationSeconds": {{
			Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := placements.Pod(nil)
			pod.Spec.Tolerations = tolerations
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
			}}
			placed := apply(t, placement.Decide(placement.Input{Offloading: offloading(v1alpha1.Remote, nil), Pod: pod}), pod)
			if placed.Spec.Affinity.PodAntiAffinity == nil {
				t.Error("the anti-affinity is lost")
			}
			kept := placed.Spec.Tolerations[:len(tolerations)]
			if diff := cmp.Diff(tolerations, kept, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
			unlimited := func(t corev1.Toleration) bool {
				return t.Key == v1alpha1.TaintVirtualNode && t.TolerationSeconds == nil
			}
			if index := slices.IndexFunc(placed.Spec.Tolerations, unlimited); index < 0 ||
				slices.ContainsFunc(placed.Spec.Tolerations[index+1:], unlimited) {
				t.Errorf("virtual nodes are not tolerated once: %+v", placed.Spec.Tolerations)
			}
		})
	}
}

func genTerms(allowEmpty bool) *rapid.Generator[[]corev1.NodeSelectorTerm] {
	expression := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		keys := []string{"region", "disk", "gpu", v1alpha1.LabelType, v1alpha1.LabelRemoteClusterID}
		key := rapid.SampledFrom(keys).Draw(t, "key")
		operator := rapid.SampledFrom([]corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
		}).Draw(t, "operator")
		requirement := corev1.NodeSelectorRequirement{Key: key, Operator: operator}
		if operator == corev1.NodeSelectorOpIn || operator == corev1.NodeSelectorOpNotIn {
			values := rapid.SampledFrom([]string{"it", "fr", "fast", placements.Milan, v1alpha1.TypeVirtualNode})
			requirement.Values = rapid.SliceOfNDistinct(values, 1, 2, rapid.ID).Draw(t, "values")
		}
		return requirement
	})
	field := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		return placements.In(metav1.ObjectNameField, rapid.SampledFrom([]string{"worker", "liqo-milan"}).Draw(t, "name"))
	})
	term := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: rapid.SliceOfN(expression, 0, 2).Draw(t, "expressions"),
			MatchFields:      rapid.SliceOfN(field, 0, 1).Draw(t, "fields"),
		}
	})
	least := 1
	if allowEmpty {
		least = 0
	}
	return rapid.SliceOfN(term, least, 3)
}

// Placement adds requirements to the pod's own node affinity. A node that the pod's affinity excludes
// must remain excluded.
func TestPlacedPodFitsNoNodeThatItsOwnAffinityExcludes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		own := genTerms(false).Draw(r, "own")
		selector := genTerms(true).Draw(r, "selector")
		if len(selector) == 0 {
			selector = nil
		}
		strategy := rapid.SampledFrom(placements.Strategies).Draw(r, "strategy")
		pod := placements.Pod(own)
		placed := apply(t, placement.Decide(placement.Input{Offloading: offloading(strategy, selector), Pod: pod}), pod)
		for _, node := range placements.Nodes {
			want := placements.Allows(t, strategy, selector, own, node)
			if got := placements.Fits(t, placed, node); got != want {
				r.Fatalf("fits %s: %v, want %v; affinity %+v", node.Name, got, want, placed.Spec.Affinity)
			}
		}
	})
}

// A StorageClass that a claim names may only remove providers from those that the pod may run on.
func TestRequiredClassesOnlyNarrow(t *testing.T) {
	classes := []string{"", "slow", "fast", "tape"}
	selectors := slices.Sorted(maps.Keys(placements.Selectors))
	rapid.Check(t, func(r *rapid.T) {
		test := placements.Case{
			Strategy: rapid.SampledFrom(placements.Strategies).Draw(r, "strategy"),
			Selector: placements.Selectors[rapid.SampledFrom(selectors).Draw(r, "selector")],
		}
		required := rapid.SliceOfN(rapid.SampledFrom(classes), 1, 3).Draw(r, "classes")
		for i, class := range required {
			test.Claims = append(test.Claims, placements.Claim{
				Name: fmt.Sprintf("data-%d", i), Class: placements.VirtualClass, RemoteClass: class,
			})
		}
		input := inputOf(test)
		decision := placement.Decide(input)
		offers := func(id string) bool {
			return !slices.ContainsFunc(required, func(class string) bool {
				return class != "" && !slices.Contains(placements.Offers[id], class)
			})
		}
		if decision.Denied != "" {
			if test.Strategy != v1alpha1.Remote || offers(placements.Milan) || offers(placements.Turin) ||
				offers(placements.Paris) {
				r.Fatalf("denied: %s", decision.Denied)
			}
			return
		}
		placed := apply(t, decision, input.Pod)
		for _, node := range placements.Nodes {
			want := placements.Allows(t, test.Strategy, test.Selector, nil, node)
			if id := node.Labels[v1alpha1.LabelRemoteClusterID]; id != "" {
				want = want && offers(id)
			}
			if got := placements.Fits(t, placed, node); got != want {
				r.Fatalf("fits %s: %v, want %v; affinity %+v", node.Name, got, want, placed.Spec.Affinity)
			}
		}
	})
}
