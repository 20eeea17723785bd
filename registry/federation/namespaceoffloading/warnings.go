// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// lookTimeout bounds how long a request takes longer for its warnings.
const lookTimeout = 2 * time.Second

// warnings tell what no provider will take part in.
func warnings(offloading *federation.NamespaceOffloading) []string {
	field, name := "spec.namespaceMappingStrategy", offloading.Namespace
	switch offloading.Spec.NamespaceMappingStrategy {
	case federation.EnforceSameName:
	case federation.SelectedName:
		field, name = "spec.remoteNamespaceName", offloading.Spec.RemoteNamespaceName
	default:
		return nil
	}
	if err := naming.RefuseTwinNamespace(name); err != nil {
		return []string{fmt.Sprintf("%s: %s cannot work here: %v", field, offloading.Spec.NamespaceMappingStrategy, err)}
	}
	return nil
}

// surroundings tell when a new selector matches no cluster now, when pods are
// sent where their claims are not, which volumes are stored by clusters that are
// given up, and how many pods a stricter spec does not move. What cannot be told is not told.
func surroundings(
	plans plan.Reader,
) func(ctx context.Context, offloading, old *federation.NamespaceOffloading) []string {
	return func(ctx context.Context, offloading, old *federation.NamespaceOffloading) []string {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		is, wanted := &federation.NamespaceOffloadingSpec{}, &offloading.Spec
		if old != nil {
			is = &old.Spec
		}
		var all []string
		selects := len(wanted.ClusterSelector.NodeSelectorTerms) > 0
		if selects && !apiequality.Semantic.DeepEqual(is.ClusterSelector, wanted.ClusterSelector) {
			if chosen, err := plans.Chosen(ctx, wanted); err == nil && chosen == 0 {
				all = append(all,
					"spec.clusterSelector: matches no cluster now; the namespace is extended as soon as it matches one")
			}
		}
		if wanted.PodOffloadingStrategy == federation.Remote && is.PodOffloadingStrategy != federation.Remote {
			if count, err := plans.BoundLocally(ctx, offloading.Namespace); err == nil && count > 0 {
				all = append(all, fmt.Sprintf("spec.podOffloadingStrategy: with Remote, %d pod(s) wait that mount claims of other "+
					"storage classes than the virtual one, since such data stays in this cluster: use LocalAndRemote, or claims of "+
					"the virtual storage class", count))
			}
		}
		if old != nil {
			all = append(all, givenUp(ctx, plans, offloading.Namespace, is, wanted)...)
		}
		if wanted.Enforcement != federation.Warn {
			return all
		}
		if count, more, err := plans.Misplaced(ctx, offloading.Namespace, wanted); err == nil && count > 0 {
			atLeast := ""
			if more {
				atLeast = "at least "
			}
			all = append(all,
				fmt.Sprintf("spec.enforcement: Warn leaves %s%d pod(s) of the namespace where this does not let them run, or waiting for nodes that are not theirs any more: restart them (kubectl rollout restart), or use Evict", atLeast, count))
		}
		return all
	}
}

// deletion returns the warnings of the deletion of a namespace offloading: which volumes
// the clusters store that are given up.
func deletion(plans plan.Reader) func(ctx context.Context, obj runtime.Object) []string {
	return func(ctx context.Context, obj runtime.Object) []string {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		offloading := obj.(*federation.NamespaceOffloading)
		return givenUp(ctx, plans, offloading.Namespace, &offloading.Spec, nil)
	}
}

// outcomes are what happens to volumes, by policy.
var outcomes = map[federation.UnoffloadPolicy]string{
	federation.UnoffloadRefuse: "the remote namespace stays until they are moved, deleted or released",
	federation.UnoffloadMove:   "their data is moved to this cluster first",
	federation.UnoffloadRetain: "their data is left to the provider",
	federation.UnoffloadDelete: "their data is deleted",
}

// givenUp returns a warning for each cluster that stores volumes and is given up.
func givenUp(
	ctx context.Context, plans plan.Reader, namespace string, is, wanted *federation.NamespaceOffloadingSpec,
) []string {
	volumes, err := plans.GivenUp(ctx, namespace, is, wanted)
	if err != nil {
		return nil
	}
	var all []string
	for len(volumes) > 0 {
		cluster, policy := volumes[0].ClusterName, volumes[0].OnUnoffload
		var names []string
		for len(volumes) > 0 && volumes[0].ClusterName == cluster {
			names, volumes = append(names, volumes[0].Name), volumes[1:]
		}
		all = append(all, fmt.Sprintf("spec.volumes.onUnoffload: is %s, and cluster %s stores %s: %s", policy, cluster,
			plan.Listed(names), outcomes[policy]))
	}
	return all
}
