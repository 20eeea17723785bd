// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/pods"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// Consumer extends namespaces of this cluster to its providers.
type Consumer struct {
	kube        kubernetes.Interface
	federation  versioned.Interface
	clusterName string
	clusterID   string
	clock       clock.PassiveClock

	namespaces   corelisters.NamespaceLister
	nodes        corelisters.NodeLister
	clusters     listers.ForeignClusterLister
	virtualNodes listers.VirtualNodeLister
	offloadings  listers.NamespaceOffloadingLister
	maps         listers.NamespaceMapLister
	// watchPods lists the pods of a namespace as the cache has them, and tells
	// whether that is complete; the first call begins to watch. seenPods does not
	// begin anything, and forgetPods ends it.
	watchPods  func(ctx context.Context, namespace string) ([]*corev1.Pod, bool, error)
	seenPods   func(namespace string) ([]*corev1.Pod, bool)
	forgetPods func(namespace string)
	// evictPod is refused with 429 when a PodDisruptionBudget holds the pod;
	// evictions knows which owners of misplaced pods that happened to, and
	// homecomings which of pods that come home.
	evictPod               func(ctx context.Context, pod *corev1.Pod) error
	evictions, homecomings *flowcontrol.Backoff
	events                 record.EventRecorder
	// volumes are the data of claims on providers, or nil where nothing keeps any.
	volumes Volumes
	// specs are those that were seen of each namespace, see stranded.
	specs sync.Map

	// reflection caches the bindings of that name alone; it is started with the
	// controller.
	reflection kubeinformers.SharedInformerFactory
	bindings   rbaclisters.RoleBindingLister

	// offloadingQueue holds namespaces, mapQueue foreign clusters.
	offloadingQueue *queue.Controller[string]
	mapQueue        *queue.Controller[string]
}

// NewConsumer makes the controller and asks the informers for what it reads.
// events tell of pods that are evicted, or are to be. clusterName and clusterID are this
// cluster's; NamespaceMaps and twins are named after them.
func NewConsumer(kube kubernetes.Interface, federation versioned.Interface,
	kubeInformers kubeinformers.SharedInformerFactory, federationInformers externalversions.SharedInformerFactory,
	events record.EventRecorder, clusterName, clusterID string,
) (*Consumer, error) {
	core, group := kubeInformers.Core().V1(), federationInformers.Federation().V1alpha1()
	c := &Consumer{
		kube:         kube,
		federation:   federation,
		clusterName:  clusterName,
		clusterID:    clusterID,
		clock:        clock.RealClock{},
		namespaces:   core.Namespaces().Lister(),
		nodes:        core.Nodes().Lister(),
		clusters:     group.ForeignClusters().Lister(),
		virtualNodes: group.VirtualNodes().Lister(),
		offloadings:  group.NamespaceOffloadings().Lister(),
		maps:         group.NamespaceMaps().Lister(),
		reflection:   named(kube, reflectionBinding),
		evictPod:     func(ctx context.Context, pod *corev1.Pod) error { return pods.Evict(ctx, kube, pod) },
		evictions:    flowcontrol.NewBackOff(minEvictionDelay, maxEvictionDelay),
		homecomings:  flowcontrol.NewBackOff(minEvictionDelay, maxHomecomingDelay),
		events:       events,
	}
	c.bindings = c.reflection.Rbac().V1().RoleBindings().Lister()
	c.offloadingQueue = queue.New("namespace-offloading", 4, c.reconcileOffloading)
	c.mapQueue = queue.New("namespace-map", 2, c.reconcileMap)
	watches := pods.OfNamespaces(kube)
	watches.Listen(func(namespace string, _ *corev1.Pod) { c.offloadingQueue.AddAfter(namespace, settle) })
	c.watchPods, c.seenPods, c.forgetPods = watches.List, watches.Seen, watches.Forget

	for _, add := range []func() error{
		func() error {
			_, err := c.reflection.Rbac().V1().RoleBindings().Informer().AddEventHandler(onChange(always,
				func(_, binding *rbacv1.RoleBinding) { c.offloadingQueue.Add(binding.Namespace) }))
			return err
		},
		func() error {
			_, err := group.NamespaceOffloadings().Informer().AddEventHandler(onChange(always, c.offloadingChanged))
			return err
		},
		func() error {
			_, err := group.NamespaceMaps().Informer().AddEventHandler(onChange(always, c.mapChanged))
			return err
		},
		func() error {
			_, err := group.ForeignClusters().Informer().AddEventHandler(onChange(specDiffers,
				func(_, cluster *v1alpha1.ForeignCluster) { c.clusterChanged(cluster.Name) }))
			return err
		},
		func() error {
			_, err := group.VirtualNodes().Informer().AddEventHandler(onChange(specDiffers,
				func(_, virtualNode *v1alpha1.VirtualNode) { c.virtualNodeChanged(virtualNode) }))
			return err
		},
		func() error {
			_, err := core.Nodes().Informer().AddEventHandler(onChange(
				func(old, current *corev1.Node) bool { return !maps.Equal(old.Labels, current.Labels) },
				func(_, node *corev1.Node) { c.nodeChanged(node) }))
			return err
		},
		func() error {
			_, err := core.Namespaces().Informer().AddEventHandler(onChange(
				func(old, current *corev1.Namespace) bool {
					return !maps.Equal(old.Labels, current.Labels) || old.DeletionTimestamp.IsZero() != current.DeletionTimestamp.IsZero()
				},
				func(_, namespace *corev1.Namespace) { c.namespaceChanged(namespace) }))
			return err
		},
	} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run works until the context ends. The shared informers are synced before.
func (c *Consumer) Run(ctx context.Context) {
	c.reflection.StartWithContext(ctx)
	defer c.reflection.Shutdown()
	for _, synced := range c.reflection.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return
		}
	}
	var running sync.WaitGroup
	running.Go(func() { c.offloadingQueue.Run(ctx) })
	running.Go(func() { c.mapQueue.Run(ctx) })
	running.Wait()
}

func (c *Consumer) offloadingChanged(old, current *v1alpha1.NamespaceOffloading) {
	c.offloadingQueue.Add(current.Namespace)
	if old == nil || specDiffers(old, current) {
		c.addClusters()
	}
}

// mapChanged looks again at the namespaces whose answer changed.
func (c *Consumer) mapChanged(old, current *v1alpha1.NamespaceMap) {
	if !c.ours(current) {
		return
	}
	cluster := naming.ForeignClusterOf(current.Namespace)
	if old == nil || specDiffers(old, current) {
		c.mapQueue.Add(cluster)
	}
	answers := map[string]v1alpha1.NamespaceMappingStatus{}
	if old != nil {
		for _, answer := range old.Status.Namespaces {
			answers[answer.Name] = answer
		}
	}
	for _, answer := range current.Status.Namespaces {
		if answers[answer.Name] != answer {
			c.offloadingQueue.Add(answer.Name)
		}
		delete(answers, answer.Name)
	}
	for name := range answers {
		c.offloadingQueue.Add(name)
	}
	if old == nil || specDiffers(old, current) {
		for _, entry := range current.Spec.Namespaces {
			c.offloadingQueue.Add(entry.Name)
		}
	}
}

// ours tells whether this cluster is the consumer of a map.
func (c *Consumer) ours(namespaceMap *v1alpha1.NamespaceMap) bool {
	return naming.IsPeerNamespace(namespaceMap.Namespace) && namespaceMap.Name == c.clusterName
}

func (c *Consumer) virtualNodeChanged(virtualNode *v1alpha1.VirtualNode) {
	if naming.IsPeerNamespace(virtualNode.Namespace) {
		c.clusterChanged(naming.ForeignClusterOf(virtualNode.Namespace))
	}
}

// nodeChanged concerns every cluster: which one is behind a node says its
// VirtualNode, which may not be there yet.
func (c *Consumer) nodeChanged(node *corev1.Node) {
	if node.Labels[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode {
		return
	}
	c.addClusters()
	c.addOffloadings()
}

func (c *Consumer) namespaceChanged(namespace *corev1.Namespace) {
	if naming.IsPeerNamespace(namespace.Name) {
		c.mapQueue.Add(naming.ForeignClusterOf(namespace.Name))
	}
	c.offloadingQueue.Add(namespace.Name)
}

func (c *Consumer) clusterChanged(cluster string) {
	c.mapQueue.Add(cluster)
	c.addOffloadings()
}

func (c *Consumer) addClusters() {
	// Listing a cache fails only with a selector that cannot be read.
	clusters, _ := c.clusters.List(everything)
	for _, cluster := range clusters {
		c.mapQueue.Add(cluster.Name)
	}
}

func (c *Consumer) addOffloadings() {
	offloadings, _ := c.offloadings.List(everything)
	for _, offloading := range offloadings {
		c.offloadingQueue.Add(offloading.Namespace)
	}
}

// leaving tells whether a namespace is on its way home.
func (c *Consumer) leaving(offloading *v1alpha1.NamespaceOffloading) bool {
	return !offloading.DeletionTimestamp.IsZero() || c.goes(offloading.Namespace)
}

func (c *Consumer) lender(cluster *v1alpha1.ForeignCluster) (placement.Provider, error) {
	virtualNodes, err := c.virtualNodes.VirtualNodes(naming.PeerNamespace(cluster.Name)).List(everything)
	return placement.Provider{Cluster: cluster, VirtualNodes: virtualNodes}, err
}

// lenders are the foreign clusters that have virtual nodes, by name.
func (c *Consumer) lenders() ([]placement.Provider, error) {
	clusters, err := c.clusters.List(everything)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(clusters, func(a, b *v1alpha1.ForeignCluster) int { return compare(a.Name, b.Name) })
	var all []placement.Provider
	for _, cluster := range clusters {
		l, err := c.lender(cluster)
		if err != nil {
			return nil, err
		}
		if len(l.VirtualNodes) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

// node is the Node of that name, and nil when there is none.
func (c *Consumer) node(name string) *corev1.Node {
	node, err := c.nodes.Get(name)
	if err != nil {
		// A cache only fails to find.
		return nil
	}
	return node
}
