// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func goodPatch() *federation.OffloadingPatch {
	apart := corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	return &federation.OffloadingPatch{
		NodeSelector: map[string]string{"disk": "ssd"},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					term("pool", corev1.NodeSelectorOpIn, "shared")}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1,
					Preference: term("spot", corev1.NodeSelectorOpExists)}},
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{apart},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100,
					PodAffinityTerm: apart}},
			},
		},
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule}},
		RuntimeClassName:    ptr.To("gvisor"),
		ExcludedLabels:      []string{"app.kubernetes.io/managed-by"},
		ExcludedAnnotations: []string{"example.org/note"},
	}
}

func TestValidateOffloadingPatch(t *testing.T) {
	good := &federation.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan"},
		Spec: federation.VirtualNodeSpec{ClusterID: milanID, NodeName: "liqo-milan", Resources: quantities("cpu", "2"),
			OffloadingPatch: goodPatch()},
	}
	const path = "spec.offloadingPatch"
	required := path + ".affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	change := func(change func(*federation.OffloadingPatch)) func(*federation.VirtualNode) {
		return func(n *federation.VirtualNode) { change(n.Spec.OffloadingPatch) }
	}
	apart := func(change func(*corev1.PodAffinityTerm)) func(*federation.VirtualNode) {
		return func(n *federation.VirtualNode) {
			change(&n.Spec.OffloadingPatch.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0])
		}
	}
	tests := map[string]wrong[*federation.VirtualNode]{
		"a node by its name": {change(func(p *federation.OffloadingPatch) {
			p.NodeSelector = map[string]string{corev1.LabelHostname: "milan-1"}
		}), []string{path + ".nodeSelector[kubernetes.io/hostname]"}},
		"a broken label": {change(func(p *federation.OffloadingPatch) { p.NodeSelector = map[string]string{"disk": "a b"} }), []string{path + ".nodeSelector"}},
		"nodes with a role": {change(func(p *federation.OffloadingPatch) {
			p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference = term(
				"node-role.kubernetes.io/control-plane", corev1.NodeSelectorOpExists)
		}), []string{path +
			".affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key"}},
		"no term at all": {change(func(p *federation.OffloadingPatch) {
			p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = nil
		}), []string{path + ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"}},
		"an unknown operator": {change(func(p *federation.OffloadingPatch) {
			terms := p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			terms[0].MatchExpressions[0].Operator = "Like"
		}), []string{path +
			".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution" +
			".nodeSelectorTerms[0].matchExpressions[0].operator"}},
		"a preference of no weight": {change(func(p *federation.OffloadingPatch) {
			p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 0
		}), []string{path + ".affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"}},
		"pods of another namespace": {apart(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"web"} }), []string{required + "[0].namespaces[0]"}},
		"pods of all namespaces":    {apart(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }), []string{required + "[0].namespaceSelector"}},
		"no topology":               {apart(func(t *corev1.PodAffinityTerm) { t.TopologyKey = "" }), []string{required + "[0].topologyKey"}},
		"labels of no pod":          {apart(func(t *corev1.PodAffinityTerm) { t.MatchLabelKeys = []string{"app"} }), []string{required + "[0].matchLabelKeys"}},
		"every taint": {change(func(p *federation.OffloadingPatch) {
			p.Tolerations = append(p.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		}), []string{path + ".tolerations[1].key"}},
		"an unknown effect":      {change(func(p *federation.OffloadingPatch) { p.Tolerations[0].Effect = "Never" }), []string{path + ".tolerations[0].effect"}},
		"a broken runtime class": {change(func(p *federation.OffloadingPatch) { p.RuntimeClassName = ptr.To("g/v") }), []string{path + ".runtimeClassName"}},
		"a broken key":           {change(func(p *federation.OffloadingPatch) { p.ExcludedLabels = []string{"a b"} }), []string{path + ".excludedLabels[0]"}},
		"a key of liqo.io":       {change(func(p *federation.OffloadingPatch) { p.ExcludedLabels = []string{v1alpha1.LabelOrigin} }), []string{path + ".excludedLabels[0]"}},
		"a cordoned node":        {change(func(p *federation.OffloadingPatch) { p.Tolerations[0].Key = corev1.TaintNodeUnschedulable }), []string{path + ".tolerations[0].key"}},
		"a key twice":            {change(func(p *federation.OffloadingPatch) { p.ExcludedAnnotations = []string{"a", "a"} }), []string{path + ".excludedAnnotations[1]"}},
		"too many keys": {change(func(p *federation.OffloadingPatch) {
			p.ExcludedAnnotations = many(maxExcluded, func(i int) string { return fmt.Sprintf("a%d", i) })
		}), []string{path + ".excludedAnnotations"}},
	}
	runCreate(t, good, ValidateVirtualNode, tests)
	runUpdate(t, good, ValidateVirtualNodeUpdate, tests)
}

func TestUnchangedPatchOfOlderRulesIsAccepted(t *testing.T) {
	old := &federation.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan", ResourceVersion: "1",
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: federation.VirtualNodeSpec{
			ClusterID: milanID, NodeName: "liqo-milan",
			OffloadingPatch: &federation.OffloadingPatch{ExcludedLabels: []string{v1alpha1.LabelOrigin}},
		},
	}
	released := old.DeepCopy()
	released.Finalizers = nil
	if errs := ValidateVirtualNodeUpdate(released, old); len(errs) > 0 {
		t.Errorf("its finalizers cannot be removed: %v", errs)
	}
	changed := old.DeepCopy()
	changed.Spec.OffloadingPatch.ExcludedLabels = append(changed.Spec.OffloadingPatch.ExcludedLabels, "example.com/team")
	if errs := ValidateVirtualNodeUpdate(changed, old); len(errs) == 0 {
		t.Error("a changed patch is accepted")
	}
}
