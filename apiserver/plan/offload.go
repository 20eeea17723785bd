// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes what a request to peer or to offload would lead to. It reads nothing:
// every fact is in the request.
package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
)

// Offload is a request to offload a namespace, to change how it is offloaded,
// or to unoffload it, with every fact of this cluster that it depends on.
type Offload struct {
	// Namespace is the namespace.
	Namespace string
	// Is and Wanted are how it is offloaded and how it is to be; nil stands for
	// not at all.
	Is, Wanted *v1alpha1.NamespaceOffloadingSpec
	// ClusterName and ClusterID are this cluster's.
	ClusterName, ClusterID string
	// Providers are all foreign clusters.
	Providers []placement.Provider
	// Nodes finds the Nodes of the virtual nodes.
	Nodes placement.Nodes
	// Pods are the unfinished pods of the namespace, by name.
	Pods []*corev1.Pod
	// Claims are those of the namespace.
	Claims Claims
	// Volumes are the virtual volumes of the namespace.
	Volumes []*v1alpha1.VirtualVolume
}

// maxMisplacedPods is how many pods a plan names.
const maxMisplacedPods = 100

// Plan returns what the request would lead to. The error names the selector
// that cannot be read.
func (o Offload) Plan() (*v1alpha1.OffloadPlan, error) {
	plan := &v1alpha1.OffloadPlan{Action: o.action()}
	var placed *placement.Placement
	if o.Wanted != nil {
		wanted, err := placement.NewPlacement(o.Wanted, o.Providers, o.Nodes)
		if err != nil {
			return nil, err
		}
		placed = &wanted
		o.misplaced(wanted, plan)
	}
	for _, provider := range o.Providers {
		cluster, err := o.cluster(provider, placed)
		if err != nil {
			return nil, err
		}
		given, err := o.givenUp(provider, &cluster)
		if err != nil {
			return nil, err
		}
		plan.Volumes = append(plan.Volumes, given...)
		plan.Clusters = append(plan.Clusters, cluster)
		if o.Wanted == nil {
			plan.EvictedPods += int32(provider.PodsAt(o.Pods))
		}
	}
	slices.SortFunc(plan.Clusters, func(a, b v1alpha1.PlannedCluster) int { return cmp.Compare(a.Name, b.Name) })
	plan.Volumes = firstVolumes(plan.Volumes)
	if o.Wanted == nil {
		plan.Unknown = append(plan.Unknown, "how long the clusters take to remove the twin namespaces")
		return plan, nil
	}
	if err := naming.RefuseRemoteNamespace(o.twin(o.Wanted)); err != nil {
		plan.Conflicts = append(plan.Conflicts, err.Error())
	}
	if count := o.mounting(o.Claims.BindLocally); count > 0 {
		plan.Conflicts = append(plan.Conflicts, fmt.Sprintf("%d pod(s) mount claims of other storage classes than "+
			"the virtual one, whose data stays in this cluster, so with podOffloadingStrategy Remote they wait. "+
			"Use LocalAndRemote, or claims of the virtual storage class.", count))
	}
	if count := o.outOfReach(); count > 0 {
		plan.Conflicts = append(plan.Conflicts, fmt.Sprintf("%d volume(s) are stored on providers, where no pod may run with "+
			"podOffloadingStrategy Local. Move them to this cluster first, or use another strategy.", count))
	}
	if count := o.mounting(o.Claims.Lack); count > 0 {
		plan.Unknown = append(plan.Unknown, fmt.Sprintf("whether the remote namespaces have the claims "+
			"that %d pod(s) mount and this cluster does not have", count))
	}
	if slices.ContainsFunc(plan.Clusters, func(cluster v1alpha1.PlannedCluster) bool { return cluster.Action == v1alpha1.PlanCreate }) {
		plan.Unknown = append(plan.Unknown, fmt.Sprintf("whether the clusters accept a namespace named %s", o.twin(o.Wanted)))
	}
	return plan, nil
}

// outOfReach counts the volumes of the namespace whose data pods could no longer use, since
// they may run in this cluster alone.
func (o Offload) outOfReach() (count int) {
	if o.Wanted.PodOffloadingStrategy != v1alpha1.Local {
		return 0
	}
	for _, volume := range o.Volumes {
		if at := volume.Status.Location; at != nil && at.ClusterName != "" {
			count++
		}
	}
	return count
}

// mounting counts the pods that the request sends to providers when they are created
// again, of those that mount claims of a kind.
func (o Offload) mounting(kind func(*corev1.Pod) bool) (count int) {
	if o.Wanted.PodOffloadingStrategy != v1alpha1.Remote {
		return 0
	}
	for _, pod := range o.Pods {
		if kind(pod) && !podspec.BelongsToItsNode(pod) {
			count++
		}
	}
	return count
}

func (o Offload) action() v1alpha1.PlanAction {
	switch {
	case o.Wanted == nil:
		return v1alpha1.PlanDelete
	case o.Is == nil:
		return v1alpha1.PlanCreate
	case apiequality.Semantic.DeepEqual(o.Is, o.Wanted):
		return v1alpha1.PlanNone
	}
	return v1alpha1.PlanChange
}

func (o Offload) twin(spec *v1alpha1.NamespaceOffloadingSpec) string {
	return naming.RemoteNamespace(o.Namespace, spec, o.ClusterName, o.ClusterID)
}

// misplaced adds the pods that would be misplaced, or would wait for nodes by what
// counted before, and what would happen to them.
func (o Offload) misplaced(placed placement.Placement, plan *v1alpha1.OffloadPlan) {
	action := v1alpha1.PlanNone
	if o.Wanted.Enforcement == v1alpha1.Evict {
		action = v1alpha1.PlanDelete
	}
	for _, pod := range o.Pods {
		why := cmp.Or(placed.Misplaced(pod), placed.Stranded(pod))
		if why == "" {
			continue
		}
		plan.MisplacedPodCount++
		if action == v1alpha1.PlanDelete {
			plan.EvictedPods++
		}
		if len(plan.MisplacedPods) < maxMisplacedPods {
			plan.MisplacedPods = append(plan.MisplacedPods, v1alpha1.MisplacedPod{Name: pod.Name, NodeName: pod.Spec.NodeName, Message: why, Action: action})
		}
	}
}

// remain reports whether pods would stay at a provider that is no longer selected,
// and keep the twin there. Those that are ending do not.
func (o Offload) remain(provider placement.Provider, placed placement.Placement) bool {
	return provider.PodsAt(slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool {
		return !pod.DeletionTimestamp.IsZero() || o.Wanted.Enforcement == v1alpha1.Evict && placed.Misplaced(pod) != ""
	})) > 0
}

// cluster is what would happen at one provider; placed is nil when the
// namespace is unoffloaded.
func (o Offload) cluster(provider placement.Provider, placed *placement.Placement) (v1alpha1.PlannedCluster, error) {
	cluster := v1alpha1.PlannedCluster{Name: provider.Cluster.Name, Action: v1alpha1.PlanNone, Message: "The namespace is unoffloaded."}
	was, err := o.choose(provider, o.Is)
	if err != nil {
		return cluster, err
	}
	if o.Wanted != nil {
		if cluster.Message, err = o.choose(provider, o.Wanted); err != nil {
			return cluster, err
		}
	}
	cluster.Selected = cluster.Message == ""
	selected := o.Is != nil && was == ""
	switch {
	case cluster.Selected:
		cluster.NamespaceName = o.twin(o.Wanted)
		if !selected {
			cluster.Action = v1alpha1.PlanCreate
		}
	case selected:
		cluster.NamespaceName = o.twin(o.Is)
		cluster.Action = v1alpha1.PlanDelete
		if placed != nil && o.remain(provider, *placed) {
			cluster.Action = v1alpha1.PlanNone
			cluster.Message += " Its twin namespace stays as long as pods are there."
		}
	}
	return cluster, nil
}

// givenUp returns the volumes of the namespace whose data a cluster stores that the
// request gives up. They hold the remote namespace there unless the policy moves,
// retains or deletes them.
func (o Offload) givenUp(provider placement.Provider, cluster *v1alpha1.PlannedCluster) ([]v1alpha1.PlannedVolume, error) {
	if o.Is == nil || cluster.Selected {
		return nil, nil
	}
	if why, err := o.choose(provider, o.Is); err != nil || why != "" {
		return nil, err
	}
	spec := o.Wanted
	if spec == nil {
		spec = o.Is
	}
	volumes := storedBy(provider.Cluster.Name, o.Volumes,
		func(string) v1alpha1.UnoffloadPolicy { return spec.Volumes.OnUnoffload })
	if len(volumes) > 0 && volumes[0].OnUnoffload == v1alpha1.UnoffloadRefuse {
		cluster.Action = v1alpha1.PlanNone
		cluster.Message += " Its remote namespace stays until its volumes are moved, deleted or released."
	}
	return volumes, nil
}

// choose is Provider.Choose with the selector of spec, if there is one.
func (o Offload) choose(provider placement.Provider, spec *v1alpha1.NamespaceOffloadingSpec) (string, error) {
	if spec == nil {
		return "", nil
	}
	selector, err := placement.NewClusterSelector(spec.ClusterSelector)
	if err != nil {
		return "", err
	}
	return provider.Choose(selector, o.Nodes), nil
}
