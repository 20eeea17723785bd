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

// readTimeout is the maximum time that reads for warnings add to a request.
const readTimeout = 2 * time.Second

// warnings returns a warning if no provider accepts the name of the remote namespace.
func warnings(offloading *federation.NamespaceOffloading) []string {
	field, name := "spec.namespaceMappingStrategy", offloading.Namespace
	switch offloading.Spec.NamespaceMappingStrategy {
	case federation.EnforceSameName:
	case federation.SelectedName:
		field, name = "spec.remoteNamespaceName", offloading.Spec.RemoteNamespaceName
	default:
		return nil
	}
	err := naming.RefuseRemoteNamespace(name)
	if err == nil {
		err = naming.RefuseDomain(name)
	}
	if err != nil {
		return []string{fmt.Sprintf("%s: %s cannot be used for this namespace: %v", field,
			offloading.Spec.NamespaceMappingStrategy, err)}
	}
	return nil
}

// surroundings returns a function that warns about a changed selector that matches no cluster, about pods that stay
// pending because their claims are bound in this cluster, about volumes on providers that the spec no longer selects,
// and about pods on nodes that the spec does not allow. It omits a warning if the objects for it cannot be read.
func surroundings(
	plans plan.Reader,
) func(ctx context.Context, offloading, old *federation.NamespaceOffloading) []string {
	return func(ctx context.Context, offloading, old *federation.NamespaceOffloading) []string {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		current, requested := &federation.NamespaceOffloadingSpec{}, &offloading.Spec
		if old != nil {
			current = &old.Spec
		}
		var all []string
		selects := len(requested.ClusterSelector.NodeSelectorTerms) > 0
		if selects && !apiequality.Semantic.DeepEqual(current.ClusterSelector, requested.ClusterSelector) {
			if chosen, err := plans.Chosen(ctx, requested); err == nil && chosen == 0 {
				all = append(all,
					"spec.clusterSelector: matches no cluster; the namespace is offloaded once it matches one")
			}
		}
		if requested.PodOffloadingStrategy == federation.Remote && current.PodOffloadingStrategy != federation.Remote {
			if count, err := plans.BoundLocally(ctx, offloading.Namespace); err == nil && count > 0 {
				all = append(all, fmt.Sprintf("spec.podOffloadingStrategy: with Remote, %d pod(s) stay pending, because they "+
					"mount claims of other storage classes than the virtual one, whose data is in this cluster: use "+
					"LocalAndRemote, or claims of the virtual storage class", count))
			}
		}
		if old != nil {
			all = append(all, volumeWarnings(ctx, plans, offloading.Namespace, current, requested)...)
		}
		if requested.Enforcement != federation.Warn {
			return all
		}
		if count, more, err := plans.Misplaced(ctx, offloading.Namespace, requested); err == nil && count > 0 {
			atLeast := ""
			if more {
				atLeast = "at least "
			}
			all = append(all,
				fmt.Sprintf("spec.enforcement: Warn leaves %s%d pod(s) of the namespace on nodes that the spec does not "+
					"allow, or waiting for nodes that only an earlier spec allowed: restart them "+
					"(kubectl rollout restart), or use Evict",
					atLeast, count))
		}
		return all
	}
}

// deletion returns a function that warns about the volumes stored by providers when a NamespaceOffloading is deleted.
func deletion(plans plan.Reader) func(ctx context.Context, obj runtime.Object) []string {
	return func(ctx context.Context, obj runtime.Object) []string {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		offloading := obj.(*federation.NamespaceOffloading)
		return volumeWarnings(ctx, plans, offloading.Namespace, &offloading.Spec, nil)
	}
}

// outcomes describes the effect of each UnoffloadPolicy on volumes.
var outcomes = map[federation.UnoffloadPolicy]string{
	federation.UnoffloadRefuse: "the remote namespace stays until their data is moved or deleted",
	federation.UnoffloadMove:   "their data is moved to this cluster first",
	federation.UnoffloadRetain: "their data is retained on the provider",
	federation.UnoffloadDelete: "their data is deleted",
}

// volumeWarnings returns a warning for each provider that stores volumes of the namespace, and that the spec current
// selects but the spec requested does not. A nil requested selects no provider. It returns none if the volumes cannot
// be read.
func volumeWarnings(
	ctx context.Context, plans plan.Reader, namespace string, current, requested *federation.NamespaceOffloadingSpec,
) []string {
	volumes, err := plans.AffectedVolumes(ctx, namespace, current, requested)
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
