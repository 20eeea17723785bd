// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
)

func term(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator,
		Values: values}}}
}

func TestValidateNamespaceOffloading(t *testing.T) {
	good := &federation.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "web"},
		Spec: federation.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: federation.DefaultName, PodOffloadingStrategy: federation.LocalAndRemote,
			Enforcement: federation.Warn,
			Volumes:     federation.NamespaceVolumes{OnUnoffload: federation.UnoffloadRefuse},
			ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				term("topology.liqo.io/region", corev1.NodeSelectorOpIn, "milan", "turin"),
				term("gpu", corev1.NodeSelectorOpExists),
			}},
		},
	}
	selector := "spec.clusterSelector.nodeSelectorTerms"
	spec := map[string]wrong[*federation.NamespaceOffloading]{
		"no pod strategy":               {func(o *federation.NamespaceOffloading) { o.Spec.PodOffloadingStrategy = "" }, []string{"spec.podOffloadingStrategy"}},
		"an unknown pod strategy":       {func(o *federation.NamespaceOffloading) { o.Spec.PodOffloadingStrategy = "Somewhere" }, []string{"spec.podOffloadingStrategy"}},
		"an unknown policy for volumes": {func(o *federation.NamespaceOffloading) { o.Spec.Volumes.OnUnoffload = "Forget" }, []string{"spec.volumes.onUnoffload"}},
		"no enforcement":                {func(o *federation.NamespaceOffloading) { o.Spec.Enforcement = "" }, []string{"spec.enforcement"}},
		"an unknown enforcement":        {func(o *federation.NamespaceOffloading) { o.Spec.Enforcement = "Kill" }, []string{"spec.enforcement"}},
		"an unknown volume policy":      {func(o *federation.NamespaceOffloading) { o.Spec.Volumes.OnUnoffload = "Forget" }, []string{"spec.volumes.onUnoffload"}},
		"a name without SelectedName":   {func(o *federation.NamespaceOffloading) { o.Spec.RemoteNamespaceName = "store" }, []string{"spec.remoteNamespaceName"}},
		"an unknown operator": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[0] = term("a", "Near", "b")
		}, []string{selector + "[0].matchExpressions[0].operator"}},
		"In without values": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[0] = term("a", corev1.NodeSelectorOpIn)
		}, []string{selector + "[0].matchExpressions[0].values"}},
		"Exists with a value": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[1] = term("a", corev1.NodeSelectorOpExists, "b")
		}, []string{selector + "[1].matchExpressions[0].values"}},
		"an invalid key": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[0] = term("a b", corev1.NodeSelectorOpExists)
		}, []string{selector + "[0].matchExpressions[0].key"}},
		"an unknown field of nodes": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{
				{Key: "metadata.nam", Operator: corev1.NodeSelectorOpIn, Values: []string{"liqo-milan"}}}
		}, []string{selector + "[0].matchFields[0].key"}},
		"an empty term": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[1] = corev1.NodeSelectorTerm{}
		}, []string{selector + "[1]"}},
		"too many terms": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms = many(maxSelectorTerms,
				func(int) corev1.NodeSelectorTerm { return term("a", corev1.NodeSelectorOpExists) })
		}, []string{selector}},
		"too many values": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[0] = term("a", corev1.NodeSelectorOpIn,
				many(maxSelectorValues, func(i int) string { return fmt.Sprint(i) })...)
		}, []string{selector + "[0].matchExpressions[0].values"}},
		"too many expressions": {func(o *federation.NamespaceOffloading) {
			o.Spec.ClusterSelector.NodeSelectorTerms[0].MatchExpressions = many(maxSelectorRequirements,
				func(int) corev1.NodeSelectorRequirement {
					return corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists}
				})
		}, []string{selector + "[0].matchExpressions"}},
	}
	spec["another name"] = wrong[*federation.NamespaceOffloading]{
		func(o *federation.NamespaceOffloading) { o.Name = "web" }, []string{"metadata.name"}}
	runCreate(t, good, ValidateNamespaceOffloading, spec)
	named := func(name string) func(*federation.NamespaceOffloading) {
		return func(o *federation.NamespaceOffloading) {
			o.Spec.NamespaceMappingStrategy, o.Spec.RemoteNamespaceName = federation.SelectedName, name
		}
	}
	selected := good.DeepCopy()
	named("store")(selected)
	runCreate(t, selected, ValidateNamespaceOffloading, map[string]wrong[*federation.NamespaceOffloading]{
		"no name":         {named(""), []string{"spec.remoteNamespaceName"}},
		"an invalid name": {named("a/b"), []string{"spec.remoteNamespaceName"}},
		"too long a name": {named(strings.Repeat("a", 64)), []string{"spec.remoteNamespaceName"}},
	})
	runUpdate(t, selected, ValidateNamespaceOffloadingUpdate, map[string]wrong[*federation.NamespaceOffloading]{
		"another remote name": {named("other"), []string{"spec.remoteNamespaceName"}},
	})
	spec["another mapping"] = wrong[*federation.NamespaceOffloading]{
		func(o *federation.NamespaceOffloading) { o.Spec.NamespaceMappingStrategy = federation.EnforceSameName },
		[]string{"spec.namespaceMappingStrategy"}}
	runUpdate(t, good, ValidateNamespaceOffloadingUpdate, spec)

	stored := good.DeepCopy()
	spec["an unknown field of nodes"].spoil(stored)
	stored.ResourceVersion = "1"
	if errs := ValidateNamespaceOffloadingUpdate(stored, stored.DeepCopy()); len(errs) > 0 {
		t.Errorf("a field that an earlier version stored prevents updates: %v", errs)
	}

	good.Status = federation.NamespaceOffloadingStatus{
		Phase: federation.OffloadingReady, RemoteNamespaceName: "web-rome-1a2b3c",
		Clusters:   []federation.OffloadedCluster{{Name: "milan", Conditions: []metav1.Condition{condition()}}},
		Conditions: []metav1.Condition{condition()},
	}
	runUpdate(t, good, ValidateNamespaceOffloadingStatusUpdate, map[string]wrong[*federation.NamespaceOffloading]{
		"an unknown phase":        {func(o *federation.NamespaceOffloading) { o.Status.Phase = "Great" }, []string{"status.phase"}},
		"a path as a remote name": {func(o *federation.NamespaceOffloading) { o.Status.RemoteNamespaceName = "a/b" }, []string{"status.remoteNamespaceName"}},
		"a cluster twice": {func(o *federation.NamespaceOffloading) {
			o.Status.Clusters = append(o.Status.Clusters, o.Status.Clusters[0])
		}, []string{"status.clusters[1].name"}},
		"no cluster": {func(o *federation.NamespaceOffloading) { o.Status.Clusters[0].Name = "" }, []string{"status.clusters[0].name"}},
		"a condition of the whole twice": {func(o *federation.NamespaceOffloading) {
			o.Status.Conditions = append(o.Status.Conditions, condition())
		}, []string{"status.conditions[1]"}},
		"a condition twice": {func(o *federation.NamespaceOffloading) {
			o.Status.Clusters[0].Conditions = append(o.Status.Clusters[0].Conditions, condition())
		}, []string{"status.clusters[0].conditions[1]"}},
		"too many clusters": {func(o *federation.NamespaceOffloading) {
			o.Status.Clusters = make([]federation.OffloadedCluster, maxClusters+1)
		}, []string{"status.clusters"}},
		"a past generation": {func(o *federation.NamespaceOffloading) { o.Status.ObservedGeneration = -1 }, []string{"status.observedGeneration"}},
	})
}
