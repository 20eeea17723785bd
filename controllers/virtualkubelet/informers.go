// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/generated/informers/externalversions"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// informers are the caches of this cluster: the node and its pods, and the
// VirtualNodes and the NamespaceMap that they follow.
type informers struct {
	node         cache.SharedIndexInformer
	pods         corev1informers.PodInformer
	virtualNodes federationinformers.VirtualNodeInformer
	maps         federationinformers.NamespaceMapInformer
	// mappings are the AddressMappings for the provider; nil where nobody said
	// where they are.
	mappings cache.SharedIndexInformer

	// virtualNodeLister is kept, since an informer makes a new one at each call, with
	// much garbage, and it is asked for every pod.
	virtualNodeLister federationlisters.VirtualNodeNamespaceLister
	// lastPatch is the patch of the VirtualNode when it was seen last.
	lastPatch atomic.Pointer[v1alpha1.OffloadingPatch]

	namespace, name string
	factories       []interface{ StartWithContext(context.Context) }
}

// handlers are told what changes.
type handlers struct {
	pods                        cache.ResourceEventHandler
	virtualNode, maps, nodeGone func()
	// mapped is called with an address that the provider was given another one
	// for, or has it no more.
	mapped func(address string)
}

func newInformers(clients *clients, options *Options) *informers {
	only := func(field, value string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, value).String() }
	}
	pods := kubeinformers.NewSharedInformerFactoryWithOptions(clients.core, 0,
		kubeinformers.WithTweakListOptions(only("spec.nodeName", options.NodeName)), kubeinformers.WithTransform(trimLocalPod))
	nodes := kubeinformers.NewSharedInformerFactoryWithOptions(clients.core, 0,
		kubeinformers.WithTweakListOptions(only("metadata.name", options.NodeName)), kubeinformers.WithTransform(trimNode))
	// All virtual nodes of the provider are there: the oldest says what is
	// copied.
	virtualNodes := externalversions.NewSharedInformerFactoryWithOptions(clients.federation, 0, externalversions.WithNamespace(options.Namespace))
	maps := externalversions.NewSharedInformerFactoryWithOptions(clients.federation, 0,
		externalversions.WithNamespace(options.Namespace), externalversions.WithTweakListOptions(only("metadata.name", options.ConsumerName)))
	i := &informers{
		node:         nodes.Core().V1().Nodes().Informer(),
		pods:         pods.Core().V1().Pods(),
		virtualNodes: virtualNodes.Federation().V1alpha1().VirtualNodes(),
		maps:         maps.Federation().V1alpha1().NamespaceMaps(),
		namespace:    options.Namespace,
		name:         options.VirtualNode,
		factories:    []interface{ StartWithContext(context.Context) }{pods, nodes, virtualNodes, maps},
	}
	if options.InstallationNamespace != "" {
		mappings := externalversions.NewSharedInformerFactoryWithOptions(clients.federation, 0, externalversions.WithTransform(trimMapping),
			externalversions.WithNamespace(options.InstallationNamespace), externalversions.WithTweakListOptions(only("spec.clusterID", options.RemoteClusterID)))
		i.mappings = mappings.Federation().V1alpha1().AddressMappings().Informer()
		i.factories = append(i.factories, mappings)
	}
	i.virtualNodeLister = i.virtualNodes.Lister().VirtualNodes(i.namespace)
	return i
}

// start adds the handlers and fills the caches.
func (i *informers) start(ctx context.Context, handlers handlers) error {
	if _, err := i.pods.Informer().AddEventHandler(handlers.pods); err != nil {
		return err
	}
	if _, err := i.virtualNodes.Informer().AddEventHandler(onAny(handlers.virtualNode)); err != nil {
		return err
	}
	if _, err := i.maps.Informer().AddEventHandler(onAny(handlers.maps)); err != nil {
		return err
	}
	if _, err := i.node.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { handlers.nodeGone() }}); err != nil {
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

// synced tells whether the caches are filled.
func (i *informers) synced() bool {
	return i.pods.Informer().HasSynced() && i.virtualNodes.Informer().HasSynced() && i.maps.Informer().HasSynced() &&
		(i.mappings == nil || i.mappings.HasSynced())
}

// virtualNode is the one that the node is made from; nil if it is gone.
func (i *informers) virtualNode() *v1alpha1.VirtualNode {
	vn, err := i.virtualNodeLister.Get(i.name)
	if err != nil {
		return nil
	}
	return vn
}

// deciding is the virtual node that says what is copied to the provider; nil if
// there is none any more.
func (i *informers) deciding(clusterID string) *v1alpha1.VirtualNode {
	// A lister of an informer returns no errors.
	all, _ := i.virtualNodeLister.List(labels.Everything())
	return reflection.DecidingVirtualNode(all, clusterID)
}

// standsFor tells whether a node is a virtual one that stands for a cluster.
func (i *informers) standsFor(clusterID, node string) bool {
	return slices.Contains(i.nodes(clusterID), node)
}

// nodes are the names of the virtual nodes that stand for a cluster.
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

// patch is what the VirtualNode gives to the pods on the provider; nil if
// nothing. When the VirtualNode is gone, its pods are about to go: what was to
// stay home still does.
func (i *informers) patch() *v1alpha1.OffloadingPatch {
	if vn := i.virtualNode(); vn != nil {
		i.lastPatch.Store(vn.Spec.OffloadingPatch)
	}
	return i.lastPatch.Load()
}

func onAny(f func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f() },
		UpdateFunc: func(any, any) { f() },
		DeleteFunc: func(any) { f() },
	}
}
