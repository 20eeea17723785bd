// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/registry/federation/plan"
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
	if err := rules.RefuseTwinNamespace(name); err != nil {
		return []string{fmt.Sprintf("%s: %s cannot work here: %v", field, offloading.Spec.NamespaceMappingStrategy, err)}
	}
	return nil
}

// surroundings tell when a new selector matches no cluster now, when pods are
// sent where their claims are not, and how many pods a stricter spec does not
// move. What cannot be told is not told.
func surroundings(plans plan.Reader) func(ctx context.Context, offloading, old *federation.NamespaceOffloading) []string {
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
				all = append(all, "spec.clusterSelector: matches no cluster now; the namespace is extended as soon as it matches one")
			}
		}
		if wanted.PodOffloadingStrategy == federation.Remote && is.PodOffloadingStrategy != federation.Remote {
			if claiming, err := plans.Claiming(ctx, offloading.Namespace); err == nil && claiming {
				all = append(all, "spec.podOffloadingStrategy: Remote sends pods that mount claims next door, where they wait for claims of these names in the twin: claims are not copied. LocalAndRemote keeps them here")
			}
		}
		if wanted.Enforcement != federation.Warn {
			return all
		}
		if count, more, err := plans.Misplaced(ctx, offloading.Namespace, wanted); err == nil && count > 0 {
			atLeast := ""
			if more {
				atLeast = "at least "
			}
			all = append(all, fmt.Sprintf("spec.enforcement: Warn leaves %s%d pod(s) of the namespace where this does not let them run, or waiting for nodes that are not theirs any more: restart them (kubectl rollout restart), or use Evict", atLeast, count))
		}
		return all
	}
}
