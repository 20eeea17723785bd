// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the plans of requests to the verbs peer and offload. Its functions are pure:
// Peer and Offload contain all facts.
package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/trust"
)

// Offload is a request to the verb offload of a namespace, together with the state of the local cluster
// that the result depends on.
type Offload struct {
	// Namespace is the name of the namespace.
	Namespace string
	// Current and Requested are the spec of the NamespaceOffloading before and after the request. Nil
	// means that it does not exist.
	Current, Requested *v1alpha1.NamespaceOffloadingSpec
	// ClusterName and ClusterID identify the local cluster.
	ClusterName, ClusterID string
	// Providers are all ForeignClusters, each with its virtual nodes.
	Providers []placement.Provider
	// Nodes returns the Node with a given name.
	Nodes placement.Nodes
	// Pods are the unfinished pods of the namespace, sorted by name.
	Pods []*corev1.Pod
	// Claims are the claims of the namespace.
	Claims Claims
	// Volumes are the virtual volumes of the namespace.
	Volumes []*v1alpha1.VirtualVolume
	// Limits are the limits for pods in the accepted offers of each provider, by the name of its ForeignCluster.
	Limits map[string][]*v1alpha1.PodPolicy
}

// maxMisplacedPods is the maximum length of misplacedPods in a plan.
const maxMisplacedPods = 100

// Plan returns the plan of the request. It fails if clusterSelector is malformed.
func (o Offload) Plan() (*v1alpha1.OffloadPlan, error) {
	plan := &v1alpha1.OffloadPlan{Action: o.action()}
	var placed *placement.Placement
	if o.Requested != nil {
		requested, err := placement.NewPlacement(o.Requested, o.Providers, o.Nodes)
		if err != nil {
			return nil, err
		}
		placed = &requested
		o.misplaced(requested, plan)
	}
	for _, provider := range o.Providers {
		cluster, err := o.cluster(provider, placed)
		if err != nil {
			return nil, err
		}
		affected, err := o.affectedVolumes(provider, &cluster)
		if err != nil {
			return nil, err
		}
		plan.Volumes = append(plan.Volumes, affected...)
		plan.Clusters = append(plan.Clusters, cluster)
		if o.Requested == nil {
			plan.EvictedPods += int32(provider.PodsAt(o.Pods))
		}
	}
	slices.SortFunc(plan.Clusters, func(a, b v1alpha1.PlannedCluster) int { return cmp.Compare(a.Name, b.Name) })
	plan.Volumes = firstVolumes(plan.Volumes)
	if o.Requested == nil {
		plan.Unknown = append(plan.Unknown, "how long the clusters take to delete the remote namespaces")
		return plan, nil
	}
	for _, refuse := range []func(string) error{refuseReserved, naming.RefuseDomain} {
		if err := refuse(o.remoteName(o.Requested)); err != nil {
			plan.Conflicts = append(plan.Conflicts, err.Error())
		}
	}
	plan.Conflicts = append(plan.Conflicts, o.refused(plan.Clusters)...)
	if count := o.mounting(o.Claims.BindLocally); count > 0 {
		plan.Conflicts = append(plan.Conflicts, fmt.Sprintf("%d pod(s) mount claims of other storage classes than "+
			"the virtual one, whose data is in this cluster, so they stay pending with podOffloadingStrategy Remote. "+
			"Use LocalAndRemote, or claims of the virtual storage class.", count))
	}
	if count := o.outOfReach(); count > 0 {
		plan.Conflicts = append(plan.Conflicts, fmt.Sprintf("%d volume(s) are stored on providers, where no pod may run "+
			"with podOffloadingStrategy Local. Move them to this cluster first, or use another strategy.", count))
	}
	if count := o.mounting(o.Claims.Lack); count > 0 {
		plan.Unknown = append(plan.Unknown, fmt.Sprintf("whether the remote namespaces have the claims "+
			"that %d pod(s) mount and this cluster does not have", count))
	}
	if slices.ContainsFunc(plan.Clusters, func(cluster v1alpha1.PlannedCluster) bool {
		return cluster.Action == v1alpha1.PlanCreate
	}) {
		plan.Unknown = append(plan.Unknown,
			fmt.Sprintf("whether the clusters accept a namespace named %s", o.remoteName(o.Requested)))
	}
	return plan, nil
}

func refuseReserved(name string) error { return naming.RefuseRemoteNamespace(name) }

// refused returns, for each selected cluster whose offers state limits for pods, how many pods of the namespace the
// cluster would refuse if they were created again, and why it would refuse the first of them by name.
func (o Offload) refused(clusters []v1alpha1.PlannedCluster) []string {
	if o.Requested.PodOffloadingStrategy == v1alpha1.Local {
		return nil
	}
	var conflicts []string
	for _, cluster := range clusters {
		if !cluster.Selected {
			continue
		}
		count, example := 0, ""
		for _, pod := range o.Pods {
			refusal := o.refusal(o.Limits[cluster.Name], pod)
			if refusal == "" {
				continue
			}
			if count++; count == 1 {
				example = fmt.Sprintf("pod %s: %s", pod.Name, refusal)
			}
		}
		if count > 0 {
			conflicts = append(conflicts, fmt.Sprintf("%s would refuse %d pod(s) of the namespace that are created again, "+
				"for example %s", cluster.Name, count, example))
		}
	}
	return conflicts
}

// refusal returns why the limits of a provider refuse a pod; empty if they permit it.
func (o Offload) refusal(limits []*v1alpha1.PodPolicy, pod *corev1.Pod) string {
	if len(limits) == 0 || podspec.BelongsToItsNode(pod) {
		return ""
	}
	sent := &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: podspec.Forward(&pod.Spec)}
	sent.Spec.Tolerations = podspec.ForwardTolerations(sent.Spec.Tolerations)
	for _, policy := range limits {
		if errs := trust.Refusals(policy, sent, nil, field.NewPath("spec"), o.ClusterName); len(errs) > 0 {
			return errs[0].Error()
		}
	}
	return ""
}

// outOfReach returns the number of volumes that providers store if the requested strategy is Local, and
// 0 otherwise.
func (o Offload) outOfReach() (count int) {
	if o.Requested.PodOffloadingStrategy != v1alpha1.Local {
		return 0
	}
	for _, volume := range o.Volumes {
		if at := volume.Status.Location; at != nil && at.ClusterName != "" {
			count++
		}
	}
	return count
}

// mounting returns, if the requested strategy is Remote, the number of pods for which kind returns true
// and which would run on providers after they are recreated. It returns 0 for other strategies.
func (o Offload) mounting(kind func(*corev1.Pod) bool) (count int) {
	if o.Requested.PodOffloadingStrategy != v1alpha1.Remote {
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
	case o.Requested == nil:
		return v1alpha1.PlanDelete
	case o.Current == nil:
		return v1alpha1.PlanCreate
	case apiequality.Semantic.DeepEqual(o.Current, o.Requested):
		return v1alpha1.PlanNone
	}
	return v1alpha1.PlanChange
}

func (o Offload) remoteName(spec *v1alpha1.NamespaceOffloadingSpec) string {
	return naming.RemoteNamespace(o.Namespace, spec, o.ClusterName, o.ClusterID)
}

// misplaced adds to the plan the pods that would be misplaced, on their nodes or while they are pending. It counts all
// of them, and adds at most maxMisplacedPods, each with the action of the requested enforcement.
func (o Offload) misplaced(placed placement.Placement, plan *v1alpha1.OffloadPlan) {
	action := v1alpha1.PlanNone
	if o.Requested.Enforcement == v1alpha1.Evict {
		action = v1alpha1.PlanDelete
	}
	for _, pod := range o.Pods {
		message := cmp.Or(placed.Misplaced(pod), placed.MisplacedPending(pod))
		if message == "" {
			continue
		}
		plan.MisplacedPodCount++
		if action == v1alpha1.PlanDelete {
			plan.EvictedPods++
		}
		if len(plan.MisplacedPods) < maxMisplacedPods {
			plan.MisplacedPods = append(plan.MisplacedPods, v1alpha1.MisplacedPod{Name: pod.Name, NodeName: pod.Spec.NodeName,
				Message: message, Action: action})
		}
	}
}

// remain reports whether pods would continue to run on a provider that is no longer selected, so that
// its remote namespace is kept. Terminating pods and pods that would be evicted do not count.
func (o Offload) remain(provider placement.Provider, placed placement.Placement) bool {
	return provider.PodsAt(slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool {
		return !pod.DeletionTimestamp.IsZero() || o.Requested.Enforcement == v1alpha1.Evict && placed.Misplaced(pod) != ""
	})) > 0
}

// cluster returns the effect of the request on one provider. placed is nil if the request unoffloads
// the namespace.
func (o Offload) cluster(provider placement.Provider, placed *placement.Placement) (v1alpha1.PlannedCluster, error) {
	cluster := v1alpha1.PlannedCluster{Name: provider.Cluster.Name, Action: v1alpha1.PlanNone,
		Message: "The namespace is unoffloaded."}
	was, err := o.choose(provider, o.Current)
	if err != nil {
		return cluster, err
	}
	if o.Requested != nil {
		if cluster.Message, err = o.choose(provider, o.Requested); err != nil {
			return cluster, err
		}
	}
	cluster.Selected = cluster.Message == ""
	selected := o.Current != nil && was == ""
	switch {
	case cluster.Selected:
		cluster.NamespaceName = o.remoteName(o.Requested)
		if !selected {
			cluster.Action = v1alpha1.PlanCreate
		}
	case selected:
		cluster.NamespaceName = o.remoteName(o.Current)
		cluster.Action = v1alpha1.PlanDelete
		if placed != nil && o.remain(provider, *placed) {
			cluster.Action = v1alpha1.PlanNone
			cluster.Message += " Its remote namespace stays until its pods have left."
		}
	}
	return cluster, nil
}

// affectedVolumes returns the volumes of the namespace that a provider stores, if the request would no longer select
// the provider. With policy Refuse it also changes the action and the message of cluster, because the remote namespace
// is kept while the provider stores volumes.
func (o Offload) affectedVolumes(
	provider placement.Provider, cluster *v1alpha1.PlannedCluster,
) ([]v1alpha1.PlannedVolume, error) {
	if o.Current == nil || cluster.Selected {
		return nil, nil
	}
	if refusal, err := o.choose(provider, o.Current); err != nil || refusal != "" {
		return nil, err
	}
	spec := o.Requested
	if spec == nil {
		spec = o.Current
	}
	volumes := storedBy(provider.Cluster.Name, o.Volumes,
		func(string) v1alpha1.UnoffloadPolicy { return spec.Volumes.OnUnoffload })
	if len(volumes) > 0 && volumes[0].OnUnoffload == v1alpha1.UnoffloadRefuse {
		cluster.Action = v1alpha1.PlanNone
		cluster.Message += " Its remote namespace stays until its volumes are moved or deleted, or " +
			"spec.volumes.onUnoffload is changed."
	}
	return volumes, nil
}

// choose returns the reason for which a namespace with spec is not offloaded to a provider (Provider.Choose). It
// returns an empty string if the namespace is offloaded to it, and also if spec is nil.
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
