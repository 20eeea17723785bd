// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the plan that a dry run of a verb returns: it reads the facts from the
// stores and from this cluster, and passes them to the rules of apiserver/plan, which the
// controllers share. It writes nothing. Warnings of strategies read the same facts.
package plan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/plan"
)

// maxPods is the number of pods of a namespace that are read.
const maxPods = 1000

// Lister is the part of the store of a kind that plans use.
type Lister interface {
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
}

// Reader reads from the stores of the federation API and from the Kubernetes
// API of this cluster. It writes nothing.
type Reader struct {
	// Clusters and VirtualNodes are the stores of these kinds.
	Clusters, VirtualNodes Lister
	// Volumes and Offloadings are the stores of virtual volumes and of namespace
	// offloadings. Plans of moves read both; plans that remove a provider read Volumes
	// and, where they concern several namespaces, Offloadings.
	Volumes, Offloadings Lister
	// Kube reads the objects of Kubernetes in this cluster.
	Kube kubernetes.Interface
	// ClusterName and ClusterID identify this cluster.
	ClusterName, ClusterID string
}

// Offload returns the plan of a request that changes the offloading of a namespace from before
// to after; nil means that it is not offloaded. It fails if a fact cannot be read.
func (r Reader) Offload(
	ctx context.Context, namespace string, before, after *federation.NamespaceOffloadingSpec,
) (*federation.OffloadPlan, error) {
	request := plan.Offload{Namespace: namespace, ClusterName: r.ClusterName, ClusterID: r.ClusterID}
	var err error
	if request.Current, err = offloadingSpec(before); err != nil {
		return nil, err
	}
	if request.Requested, err = offloadingSpec(after); err != nil {
		return nil, err
	}
	if request.Providers, err = r.providers(ctx); err != nil {
		return nil, err
	}
	if request.Nodes, err = r.nodes(ctx); err != nil {
		return nil, err
	}
	var more bool
	if request.Pods, more, err = r.pods(ctx, namespace); err != nil {
		return nil, err
	}
	if request.Claims, err = r.claims(ctx, namespace, request.Pods); err != nil {
		return nil, err
	}
	if request.Volumes, err = r.externalVolumes(ctx, namespace); err != nil {
		return nil, err
	}
	plan, err := request.Plan()
	if err != nil {
		return nil, err
	}
	if more {
		plan.Unknown = append(plan.Unknown, fmt.Sprintf("the result for pods beyond the first %d of the namespace",
			maxPods))
	}
	internal := &federation.OffloadPlan{}
	return internal, v1alpha1.Convert_v1alpha1_OffloadPlan_To_federation_OffloadPlan(plan, internal, nil)
}

// Misplaced returns the number of pods of a namespace that run on nodes which spec does not
// allow, or that wait for nodes of an earlier spec. It reports whether there are more pods
// than it has read.
func (r Reader) Misplaced(
	ctx context.Context, namespace string, spec *federation.NamespaceOffloadingSpec,
) (count int, more bool, err error) {
	external, err := offloadingSpec(spec)
	if err != nil || placement.PlacesAnywhere(external) {
		return 0, false, err
	}
	providers, err := r.providers(ctx)
	if err != nil {
		return 0, false, err
	}
	nodes, err := r.nodes(ctx)
	if err != nil {
		return 0, false, err
	}
	placement, err := placement.NewPlacement(external, providers, nodes)
	if err != nil {
		return 0, false, err
	}
	pods, more, err := r.pods(ctx, namespace)
	if err != nil {
		return 0, false, err
	}
	for _, pod := range pods {
		if placement.Misplaced(pod) != "" || placement.Stranded(pod) != "" {
			count++
		}
	}
	return count, more, nil
}

// pods returns the first unfinished pods of a namespace, and reports whether there are
// more.
func (r Reader) pods(ctx context.Context, namespace string) ([]*corev1.Pod, bool, error) {
	list, err := r.Kube.CoreV1().Pods(namespace).List(ctx,
		metav1.ListOptions{Limit: maxPods, FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"})
	if err != nil {
		return nil, false, apierrors.NewInternalError(
			fmt.Errorf("reading the pods of namespace %s for a plan: %w", namespace, err))
	}
	return pointers(list.Items), list.Continue != "", nil
}

// Chosen returns the number of providers that spec selects.
func (r Reader) Chosen(ctx context.Context, spec *federation.NamespaceOffloadingSpec) (int, error) {
	selector, err := placement.NewClusterSelector(spec.ClusterSelector)
	if err != nil {
		return 0, err
	}
	providers, err := r.providers(ctx)
	if err != nil {
		return 0, err
	}
	nodes, err := r.nodes(ctx)
	if err != nil {
		return 0, err
	}
	chosen := 0
	for _, provider := range providers {
		if provider.Choose(selector, nodes) == "" {
			chosen++
		}
	}
	return chosen, nil
}

// Peer returns the plan of a request that changes a foreign cluster from before to after; nil
// means that it does not exist. newToken is whether the request stores another invitation. It
// fails if a fact cannot be read.
func (r Reader) Peer(
	ctx context.Context, before, after *federation.ForeignCluster, newToken bool,
) (*federation.PeeringPlan, error) {
	request := plan.Peer{NewToken: newToken, ClusterID: r.ClusterID}
	var err error
	if request.Current, err = foreignCluster(before); err != nil {
		return nil, err
	}
	if request.Requested, err = foreignCluster(after); err != nil {
		return nil, err
	}
	if after == nil {
		request.Requested = request.Current.DeepCopy()
		now := metav1.Now()
		request.Requested.DeletionTimestamp = &now
	}
	if request.Others, err = r.clusters(ctx); err != nil {
		return nil, err
	}
	name := request.Requested.Name
	if request.VirtualNodes, err = r.virtualNodes(ctx, naming.PeerNamespace(name)); err != nil {
		return nil, err
	}
	if request.Namespace, err = found(r.Kube.CoreV1().Namespaces().Get(ctx, naming.PeerNamespace(name),
		metav1.GetOptions{})); err != nil {
		return nil, err
	}
	if request.Node, err = found(r.Kube.CoreV1().Nodes().Get(ctx, naming.NodeName(name),
		metav1.GetOptions{})); err != nil {
		return nil, err
	}
	if request.Volumes, err = r.externalVolumes(ctx, metav1.NamespaceAll); err != nil {
		return nil, err
	}
	if request.Policies, err = r.policies(ctx); err != nil {
		return nil, err
	}
	internal := &federation.PeeringPlan{}
	return internal, v1alpha1.Convert_v1alpha1_PeeringPlan_To_federation_PeeringPlan(request.Plan(), internal, nil)
}

// found returns an object that was read, and nil if it does not exist.
func found[P any](obj *P, err error) (*P, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading an object for a plan: %w", err))
	}
	return obj, nil
}

// providers returns all foreign clusters with their virtual nodes.
func (r Reader) providers(ctx context.Context) ([]placement.Provider, error) {
	clusters, err := r.clusters(ctx)
	if err != nil {
		return nil, err
	}
	virtualNodes, err := r.virtualNodes(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	of := map[string][]*v1alpha1.VirtualNode{}
	for _, virtualNode := range virtualNodes {
		of[virtualNode.Namespace] = append(of[virtualNode.Namespace], virtualNode)
	}
	providers := make([]placement.Provider, 0, len(clusters))
	for _, cluster := range clusters {
		providers = append(providers, placement.Provider{Cluster: cluster,
			VirtualNodes: of[naming.PeerNamespace(cluster.Name)]})
	}
	return providers, nil
}

func (r Reader) clusters(ctx context.Context) ([]*v1alpha1.ForeignCluster, error) {
	obj, err := r.Clusters.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceNone),
		&metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.ForeignClusterList{}
	err = v1alpha1.Convert_federation_ForeignClusterList_To_v1alpha1_ForeignClusterList(
		obj.(*federation.ForeignClusterList), list, nil)
	if err != nil {
		return nil, err
	}
	return pointers(list.Items), nil
}

func (r Reader) virtualNodes(ctx context.Context, namespace string) ([]*v1alpha1.VirtualNode, error) {
	obj, err := r.VirtualNodes.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.VirtualNodeList{}
	if err := v1alpha1.Convert_federation_VirtualNodeList_To_v1alpha1_VirtualNodeList(obj.(*federation.VirtualNodeList),
		list, nil); err != nil {
		return nil, err
	}
	return pointers(list.Items), nil
}

// nodes returns a function that finds the Nodes of virtual nodes.
func (r Reader) nodes(ctx context.Context) (placement.Nodes, error) {
	list, err := r.Kube.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: v1alpha1.LabelType + "=" + v1alpha1.TypeVirtualNode})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the Nodes of virtual nodes: %w", err))
	}
	byName := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return func(name string) *corev1.Node { return byName[name] }, nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

func offloadingSpec(internal *federation.NamespaceOffloadingSpec) (*v1alpha1.NamespaceOffloadingSpec, error) {
	if internal == nil {
		return nil, nil
	}
	spec := &v1alpha1.NamespaceOffloadingSpec{}
	return spec, v1alpha1.Convert_federation_NamespaceOffloadingSpec_To_v1alpha1_NamespaceOffloadingSpec(
		internal.DeepCopy(), spec, nil)
}

func foreignCluster(internal *federation.ForeignCluster) (*v1alpha1.ForeignCluster, error) {
	if internal == nil {
		return nil, nil
	}
	cluster := &v1alpha1.ForeignCluster{}
	return cluster, v1alpha1.Convert_federation_ForeignCluster_To_v1alpha1_ForeignCluster(internal.DeepCopy(), cluster,
		nil)
}
