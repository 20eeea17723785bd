// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the plan that the dry run of a subresource returns. It reads objects from the stores of the
// federation API and from the local cluster, and applies the rules of apiserver/plan, which the controllers use, too.
// Warnings of strategies read the same objects. It writes nothing.
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
	"liqo.io/federation/apiserver/trust"
)

// maxPods is the maximum number of pods of a namespace that a plan considers.
const maxPods = 1000

// Lister is the part of a kind's store that plans need.
type Lister interface {
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
}

// Reader reads the objects of plans and warnings from the stores of the federation API and from the local cluster. It
// writes nothing.
type Reader struct {
	// Clusters is the store of ForeignClusters, and VirtualNodes of VirtualNodes. For WithAccess, nil means that there are
	// no VirtualNodes.
	Clusters, VirtualNodes Lister
	// Volumes is the store of VirtualVolumes, and Offloadings of NamespaceOffloadings. All plans read Volumes. Move and
	// Peer read Offloadings, too.
	Volumes, Offloadings Lister
	// ShadowPods is the store of ShadowPods. Only BeyondLimits reads it.
	ShadowPods Lister
	// Offers is the store of ResourceOffers. Only Offload reads it, and nil means that there are none.
	Offers Lister
	// Pods are the limits for pods of consumers that the flags of this server set.
	Pods trust.PodFlags
	// APIAccess is the access to the local API server that the flags of this server permit pods on providers.
	APIAccess v1alpha1.APIAccess
	// Kube is the client of the local cluster's Kubernetes API.
	Kube kubernetes.Interface
	// ClusterName and ClusterID identify the local cluster.
	ClusterName, ClusterID string
}

// Offload returns the plan of a request that changes the offloading of a namespace from before to after. A nil spec
// means that the namespace is not offloaded. It fails if an object cannot be read.
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
	if request.Limits, err = r.limits(ctx, request.Providers); err != nil {
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

// Misplaced returns the number of pods of a namespace that run on nodes which spec does not allow, or that wait for
// nodes which only an earlier spec allowed. It examines at most maxPods unfinished pods; more is true if the namespace
// has more of them.
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
		if placement.Misplaced(pod) != "" || placement.MisplacedPending(pod) != "" {
			count++
		}
	}
	return count, more, nil
}

// pods returns at most maxPods unfinished pods of a namespace, in the order of their names. The bool is true if the
// namespace has more of them.
func (r Reader) pods(ctx context.Context, namespace string) ([]*corev1.Pod, bool, error) {
	list, err := r.Kube.CoreV1().Pods(namespace).List(ctx,
		metav1.ListOptions{Limit: maxPods, FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"})
	if err != nil {
		return nil, false, apierrors.NewInternalError(
			fmt.Errorf("reading the pods of namespace %s for a plan: %w", namespace, err))
	}
	return pointers(list.Items), list.Continue != "", nil
}

// Chosen returns the number of providers that the selector of spec matches.
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

// Peer returns the plan of a request that changes a ForeignCluster from before to after. A nil object means that it
// does not exist. newToken is true if the request stores a new invitation token. It fails if an object cannot be read.
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

// found returns the result of a read, and nil instead of an error if the object does not exist.
func found[P any](obj *P, err error) (*P, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading an object for a plan: %w", err))
	}
	return obj, nil
}

// providers returns all ForeignClusters with their VirtualNodes.
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

// nodes returns a function that returns the Node with a name if it is a virtual node, and nil otherwise.
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
