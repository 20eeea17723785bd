// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/informers/externalversions"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// informers are the caches of this cluster: the node and its pods, and the
// VirtualNode and the NamespaceMap that they follow.
type informers struct {
	node         cache.SharedIndexInformer
	pods         corev1informers.PodInformer
	virtualNodes federationinformers.VirtualNodeInformer
	maps         federationinformers.NamespaceMapInformer

	namespace, name string
	factories       []interface{ StartWithContext(context.Context) }
}

// handlers are told what changes.
type handlers struct {
	pods                        cache.ResourceEventHandler
	virtualNode, maps, nodeGone func()
}

func newInformers(clients *clients, options *Options) *informers {
	only := func(field, value string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, value).String() }
	}
	pods := kubeinformers.NewSharedInformerFactoryWithOptions(clients.core, 0,
		kubeinformers.WithTweakListOptions(only("spec.nodeName", options.NodeName)), kubeinformers.WithTransform(trimLocalPod))
	nodes := kubeinformers.NewSharedInformerFactoryWithOptions(clients.core, 0,
		kubeinformers.WithTweakListOptions(only("metadata.name", options.NodeName)), kubeinformers.WithTransform(trimNode))
	federation := func(name string) externalversions.SharedInformerFactory {
		return externalversions.NewSharedInformerFactoryWithOptions(clients.federation, 0,
			externalversions.WithNamespace(options.Namespace), externalversions.WithTweakListOptions(only("metadata.name", name)))
	}
	virtualNodes, maps := federation(options.VirtualNode), federation(options.ConsumerName)
	return &informers{
		node:         nodes.Core().V1().Nodes().Informer(),
		pods:         pods.Core().V1().Pods(),
		virtualNodes: virtualNodes.Federation().V1alpha1().VirtualNodes(),
		maps:         maps.Federation().V1alpha1().NamespaceMaps(),
		namespace:    options.Namespace,
		name:         options.VirtualNode,
		factories:    []interface{ StartWithContext(context.Context) }{pods, nodes, virtualNodes, maps},
	}
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
	for _, factory := range i.factories {
		factory.StartWithContext(ctx)
	}
	return nil
}

// synced tells whether the caches are filled.
func (i *informers) synced() bool {
	return i.pods.Informer().HasSynced() && i.virtualNodes.Informer().HasSynced() && i.maps.Informer().HasSynced()
}

// virtualNode is the one that the node is made from; nil if it is gone.
func (i *informers) virtualNode() *v1alpha1.VirtualNode {
	vn, err := i.virtualNodes.Lister().VirtualNodes(i.namespace).Get(i.name)
	if err != nil {
		return nil
	}
	return vn
}

func onAny(f func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f() },
		UpdateFunc: func(any, any) { f() },
		DeleteFunc: func(any) { f() },
	}
}
