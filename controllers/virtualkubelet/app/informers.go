// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/generated/informers/externalversions"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// informers are the caches of objects in the local cluster.
type informers struct {
	node         cache.SharedIndexInformer
	pods         corev1informers.PodInformer
	virtualNodes federationinformers.VirtualNodeInformer
	maps         federationinformers.NamespaceMapInformer
	clusterInfos federationinformers.ClusterInfoInformer
	// mappings are the AddressMappings for the provider; nil without an installation namespace.
	mappings cache.SharedIndexInformer

	// The listers are fields because each call of Lister() of an informer allocates a new one.
	virtualNodeLister federationlisters.VirtualNodeNamespaceLister
	clusterInfoLister federationlisters.ClusterInfoLister
	// lastPatch is the offloading patch that the last call of patch read from the VirtualNode.
	lastPatch atomic.Pointer[v1alpha1.OffloadingPatch]
	// lastAccess is the last result of apiAccessAllowed that the VirtualNode stated.
	lastAccess atomic.Bool

	namespace, name string
	factories       []interface{ StartWithContext(context.Context) }
}

// handlers are the functions that informers call when an object changes.
type handlers struct {
	pods                        cache.ResourceEventHandler
	virtualNode, maps, nodeGone func()
	// clusterInfo is called when the ClusterInfo of the local cluster changes.
	clusterInfo func()
	// mapped is called with the original address of an AddressMapping that was created or deleted.
	mapped func(address string)
}

func newInformers(clients *clients, options *Options) *informers {
	only := func(field, value string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, value).String() }
	}
	pods := kubeinformers.NewSharedInformerFactoryWithOptions(
		clients.core,
		0,
		kubeinformers.WithTweakListOptions(
			only("spec.nodeName", options.NodeName),
		),
		kubeinformers.WithTransform(remotens.TrimLocalPod),
	)
	nodes := kubeinformers.NewSharedInformerFactoryWithOptions(clients.core, 0,
		kubeinformers.WithTweakListOptions(only("metadata.name", options.NodeName)),
		kubeinformers.WithTransform(trimNode))
	// All VirtualNodes in the peer namespace are cached, because the reflection policy of the oldest one applies to all.
	virtualNodes := externalversions.NewSharedInformerFactoryWithOptions(
		clients.federation,
		0,
		externalversions.WithNamespace(options.Namespace),
	)
	maps := externalversions.NewSharedInformerFactoryWithOptions(
		clients.federation,
		0,
		externalversions.WithNamespace(
			options.Namespace,
		),
		externalversions.WithTweakListOptions(only("metadata.name", options.ConsumerName)),
	)
	clusterInfos := externalversions.NewSharedInformerFactoryWithOptions(
		clients.federation,
		0,
		externalversions.WithTransform(trimClusterInfo),
		externalversions.WithTweakListOptions(only("metadata.name", v1alpha1.ClusterInfoName)),
	)
	i := &informers{
		node:         nodes.Core().V1().Nodes().Informer(),
		pods:         pods.Core().V1().Pods(),
		virtualNodes: virtualNodes.Federation().V1alpha1().VirtualNodes(),
		maps:         maps.Federation().V1alpha1().NamespaceMaps(),
		clusterInfos: clusterInfos.Federation().V1alpha1().ClusterInfos(),
		namespace:    options.Namespace,
		name:         options.VirtualNode,
		factories:    []interface{ StartWithContext(context.Context) }{pods, nodes, virtualNodes, maps, clusterInfos},
	}
	if options.InstallationNamespace != "" {
		mappings := externalversions.NewSharedInformerFactoryWithOptions(
			clients.federation,
			0,
			externalversions.WithTransform(trimMapping),
			externalversions.WithNamespace(
				options.InstallationNamespace,
			),
			externalversions.WithTweakListOptions(only("spec.clusterID", options.RemoteClusterID)),
		)
		i.mappings = mappings.Federation().V1alpha1().AddressMappings().Informer()
		i.factories = append(i.factories, mappings)
	}
	i.virtualNodeLister = i.virtualNodes.Lister().VirtualNodes(i.namespace)
	i.clusterInfoLister = i.clusterInfos.Lister()
	return i
}

// start adds the event handlers and starts to fill the caches. It fails if a handler or an index cannot be added.
func (i *informers) start(ctx context.Context, handlers handlers) error {
	if _, err := i.pods.Informer().AddEventHandler(handlers.pods); err != nil {
		return err
	}
	if _, err := remotens.OnChange(i.virtualNodes.Informer(), func(any) { handlers.virtualNode() }); err != nil {
		return err
	}
	if _, err := remotens.OnChange(i.maps.Informer(), func(any) { handlers.maps() }); err != nil {
		return err
	}
	if _, err := remotens.OnChange(i.clusterInfos.Informer(), func(any) { handlers.clusterInfo() }); err != nil {
		return err
	}
	if _, err := i.node.AddEventHandler(
		cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { handlers.nodeGone() }},
	); err != nil {
		return err
	}
	if i.mappings != nil {
		if err := i.mappings.AddIndexers(cache.Indexers{byAddress: addressOf}); err != nil {
			return err
		}
		if _, err := i.mappings.AddEventHandler(onMapping(handlers.mapped)); err != nil {
			return err
		}
	}
	for _, factory := range i.factories {
		factory.StartWithContext(ctx)
	}
	return nil
}

// synced reports whether the caches are filled. The cache of the Node is not needed.
func (i *informers) synced() bool {
	return i.pods.Informer().HasSynced() && i.virtualNodes.Informer().HasSynced() && i.maps.Informer().HasSynced() &&
		i.clusterInfos.Informer().HasSynced() && (i.mappings == nil || i.mappings.HasSynced())
}

// virtualNode returns the VirtualNode of this node, or nil if it does not exist.
func (i *informers) virtualNode() *v1alpha1.VirtualNode {
	vn, err := i.virtualNodeLister.Get(i.name)
	if err != nil {
		return nil
	}
	return vn
}

// clusterInfo returns the ClusterInfo of the local cluster, or nil if it does not exist.
func (i *informers) clusterInfo() *v1alpha1.ClusterInfo {
	info, err := i.clusterInfoLister.Get(v1alpha1.ClusterInfoName)
	if err != nil {
		return nil
	}
	return info
}

// deciding returns, of the VirtualNodes for the provider with this cluster id, the one whose reflection policy applies
// to all of them; nil if there is none.
func (i *informers) deciding(clusterID string) *v1alpha1.VirtualNode {
	// A lister of an informer returns no errors.
	all, _ := i.virtualNodeLister.List(labels.Everything())
	return reflection.DecidingVirtualNode(all, clusterID)
}

// isOf reports whether the Node with this name represents the provider with this cluster id.
func (i *informers) isOf(clusterID, node string) bool {
	return slices.Contains(i.nodes(clusterID), node)
}

// nodes returns the names of the virtual nodes that represent the provider with this cluster id.
func (i *informers) nodes(clusterID string) []string {
	// A lister of an informer returns no errors.
	all, _ := i.virtualNodeLister.List(labels.Everything())
	return nodeNames(all, clusterID)
}

func nodeNames(all []*v1alpha1.VirtualNode, clusterID string) []string {
	var names []string
	for _, vn := range all {
		if vn.Spec.ClusterID == clusterID {
			names = append(names, vn.Spec.NodeName)
		}
	}
	return names
}

// patch returns the VirtualNode's offloading patch, or nil if it specifies none. After the VirtualNode is deleted,
// patch returns the last one, so that excluded labels remain excluded until the pods are deleted.
func (i *informers) patch() *v1alpha1.OffloadingPatch {
	if vn := i.virtualNode(); vn != nil {
		i.lastPatch.Store(vn.Spec.OffloadingPatch)
	}
	return i.lastPatch.Load()
}

// apiAccessAllowed reports whether pods of this node may use the consumer's API server. If the VirtualNode ceases to
// state that, its last statement applies: during an upgrade, a replica of the API server of version v0.1.0 can store a
// VirtualNode without status.apiAccess.
func (i *informers) apiAccessAllowed() bool {
	vn := i.virtualNode()
	if vn == nil {
		return false
	}
	if access := trust.NodeAPIAccess(vn); access != "" {
		i.lastAccess.Store(access == v1alpha1.APIAccessConsumer)
	}
	return i.lastAccess.Load()
}

// offeredNode returns the name of the provider's node that this virtual node represents, or empty if the VirtualNode
// names none.
func (i *informers) offeredNode() string {
	if vn := i.virtualNode(); vn != nil {
		return vn.Spec.OfferedNode
	}
	return ""
}

// trimNode drops all fields of a Node but name, UID and resourceVersion, because only its deletion is handled.
func trimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		}, nil
	}
	return obj, nil
}

// trimClusterInfo drops all fields of a ClusterInfo but name, UID, resourceVersion and status.ranges.
func trimClusterInfo(obj any) (any, error) {
	if info, ok := obj.(*v1alpha1.ClusterInfo); ok {
		return &v1alpha1.ClusterInfo{
			ObjectMeta: metav1.ObjectMeta{Name: info.Name, UID: info.UID, ResourceVersion: info.ResourceVersion},
			Status:     v1alpha1.ClusterInfoStatus{Ranges: info.Status.Ranges},
		}, nil
	}
	return obj, nil
}
