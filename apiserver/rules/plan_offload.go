// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Offload is a request to offload a namespace, to change how it is offloaded,
// or to bring it home, with everything that this cluster knows about it.
type Offload struct {
	// Namespace is the namespace.
	Namespace string
	// Is and Wanted are how it is offloaded and how it is to be; nil stands for
	// not at all.
	Is, Wanted *v1alpha1.NamespaceOffloadingSpec
	// ClusterName and ClusterID are this cluster's.
	ClusterName, ClusterID string
	// Lenders are all foreign clusters.
	Lenders []Lender
	// Nodes finds the Nodes of the virtual nodes.
	Nodes Nodes
	// Pods are the unfinished pods of the namespace.
	Pods []corev1.Pod
}

// Plan tells what the request would lead to. The error names the selector
// that cannot be read.
func (o Offload) Plan() (*v1alpha1.OffloadPlan, error) {
	plan := &v1alpha1.OffloadPlan{Action: o.action()}
	staying := map[string]bool{}
	for _, lender := range o.Lenders {
		cluster, err := o.cluster(lender)
		if err != nil {
			return nil, err
		}
		plan.Clusters = append(plan.Clusters, cluster)
		for _, virtualNode := range lender.VirtualNodes {
			staying[virtualNode.Spec.NodeName] = cluster.Selected
		}
	}
	slices.SortFunc(plan.Clusters, func(a, b v1alpha1.PlannedCluster) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range o.Pods {
		if stays, remote := staying[pod.Spec.NodeName]; remote && !stays {
			plan.EvictedPods++
		}
	}
	if o.Wanted == nil {
		plan.Unknown = append(plan.Unknown, "how long the clusters take to remove the twin namespaces")
		return plan, nil
	}
	if err := RefuseTwinNamespace(o.twin(o.Wanted)); err != nil {
		plan.Conflicts = append(plan.Conflicts, err.Error())
	}
	plan.Unknown = append(plan.Unknown, fmt.Sprintf("whether the clusters accept a namespace named %s", o.twin(o.Wanted)))
	return plan, nil
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
	return TwinNamespace(o.Namespace, spec, o.ClusterName, o.ClusterID)
}

// cluster is what would happen at one lender.
func (o Offload) cluster(lender Lender) (v1alpha1.PlannedCluster, error) {
	cluster := v1alpha1.PlannedCluster{Name: lender.Cluster.Name, Action: v1alpha1.PlanNone, Message: "The namespace comes home."}
	was, err := o.choose(lender, o.Is)
	if err != nil {
		return cluster, err
	}
	if o.Wanted != nil {
		if cluster.Message, err = o.choose(lender, o.Wanted); err != nil {
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
	}
	return cluster, nil
}

// choose is Lender.Choose with the selector of spec, if there is one.
func (o Offload) choose(lender Lender, spec *v1alpha1.NamespaceOffloadingSpec) (string, error) {
	if spec == nil {
		return "", nil
	}
	selector, err := NewClusterSelector(spec.ClusterSelector)
	if err != nil {
		return "", err
	}
	return lender.Choose(selector, o.Nodes), nil
}
