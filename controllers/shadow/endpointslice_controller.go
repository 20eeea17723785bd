// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const (
	sliceWorkers = 4
	// slicePace is the least time between two writes of one EndpointSlice: a
	// consumer changes what it is made of as often as it likes.
	slicePace = time.Second
	// nodesSettle is how long a change of nodes, or of the CIDRs of Services, may
	// bring others with it.
	nodesSettle = time.Second
)

// Network is what bounds the addresses of consumers.
type Network struct {
	// Refused are CIDRs that no endpoint of a consumer may be in, beside those of
	// the nodes, their pods and the Services of this cluster.
	Refused []netip.Prefix
	// Networking says how the pods of two clusters reach each other, where a
	// ForeignCluster does not say.
	Networking v1alpha1.NetworkingMode
	// Tunnels are what was agreed upon with other clusters, and Namespace is where
	// that is written down. Where networking is Tunnel, the endpoints of a consumer
	// are in the ranges of its tunnel.
	Tunnels   federationinformers.TunnelEndpointInformer
	Namespace string
}

// EndpointSlices keeps an EndpointSlice for each ShadowEndpointSlice, whose
// endpoints are ready only while the consumer can be reached.
type EndpointSlices struct {
	kube       kubernetes.Interface
	federation versioned.Interface
	clock      clock.PassiveClock
	network    Network

	shadows    listers.ShadowEndpointSliceLister
	clusters   listers.ForeignClusterLister
	tunnels    listers.TunnelEndpointNamespaceLister
	namespaces corelisters.NamespaceLister
	nodes      corelisters.NodeLister
	services   networkinglisters.ServiceCIDRLister
	slices     discoverylisters.EndpointSliceLister
	// sliceInformers caches the EndpointSlices of this controller alone.
	sliceInformers kubeinformers.SharedInformerFactory
	queue          *queue.Controller[cache.ObjectName]

	// written is when an EndpointSlice was written last.
	mutex   sync.Mutex
	written map[cache.ObjectName]time.Time
}

// NewEndpointSlices makes the controller and asks the informers for what it
// reads. Endpoints whose addresses are not the consumer's to have are left out.
func NewEndpointSlices(kube kubernetes.Interface, federation versioned.Interface,
	kubeInformers kubeinformers.SharedInformerFactory, federationInformers externalversions.SharedInformerFactory,
	network Network, clock clock.PassiveClock,
) (*EndpointSlices, error) {
	managed := labels.Set{discoveryv1.LabelManagedBy: v1alpha1.ManagedBy}.String()
	sliceInformers := kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0,
		kubeinformers.WithTransform(remote.Trim),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = managed }))
	shadows, clusters := federationInformers.Federation().V1alpha1().ShadowEndpointSlices(), federationInformers.Federation().V1alpha1().ForeignClusters()
	services := kubeInformers.Networking().V1().ServiceCIDRs()
	nodes, slices := kubeInformers.Core().V1().Nodes(), sliceInformers.Discovery().V1().EndpointSlices()
	c := &EndpointSlices{
		kube:           kube,
		federation:     federation,
		clock:          clock,
		network:        network,
		shadows:        shadows.Lister(),
		clusters:       clusters.Lister(),
		tunnels:        network.Tunnels.Lister().TunnelEndpoints(network.Namespace),
		namespaces:     kubeInformers.Core().V1().Namespaces().Lister(),
		nodes:          nodes.Lister(),
		services:       services.Lister(),
		slices:         slices.Lister(),
		sliceInformers: sliceInformers,
		written:        map[cache.ObjectName]time.Time{},
	}
	c.queue = queue.New("shadow-endpointslice", sliceWorkers, c.reconcile)
	// The lister of namespaces needs its informer to be running.
	kubeInformers.Core().V1().Namespaces().Informer()
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{shadows.Informer(), c.queue.Handle(queue.ObjectKeys)},
		{slices.Informer(), c.queue.Handle(queue.ObjectKeys)},
		{clusters.Informer(), onTurn(turnedAway, func(cluster *v1alpha1.ForeignCluster) { c.lookAtAllOf(cluster.Name) })},
		{network.Tunnels.Informer(), onTurn(ledElsewhere, func(tunnel *v1alpha1.TunnelEndpoint) { c.lookAtAllOf(tunnel.Name) })},
		{nodes.Informer(), onTurn(readdressed, func(*corev1.Node) { c.lookAtAll(nodesSettle) })},
		{services.Informer(), onTurn(resized, func(*networkingv1.ServiceCIDR) { c.lookAtAll(nodesSettle) })},
	} {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run works until the context ends. The shared informers are synced before.
func (c *EndpointSlices) Run(ctx context.Context) {
	c.sliceInformers.StartWithContext(ctx)
	defer c.sliceInformers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.sliceInformers.Discovery().V1().EndpointSlices().Informer().HasSynced) {
		return
	}
	c.queue.Run(ctx)
}

// onTurn is told of each object that comes, goes, or changes in what counts.
func onTurn[T any](turned func(old, current T) bool, tell func(T)) cache.ResourceEventHandler {
	one := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if object, ok := obj.(T); ok {
			tell(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: one,
		UpdateFunc: func(old, current any) {
			before, ok1 := old.(T)
			after, ok2 := current.(T)
			if ok1 && ok2 && turned(before, after) {
				tell(after)
			}
		},
		DeleteFunc: one,
	}
}

// turnedAway tells whether a consumer can be reached otherwise than before.
func turnedAway(old, current *v1alpha1.ForeignCluster) bool {
	return reachability(old) != reachability(current) || old.Spec.Networking != current.Spec.Networking
}

// ledElsewhere tells whether a tunnel leads to other ranges than before.
func ledElsewhere(old, current *v1alpha1.TunnelEndpoint) bool {
	return !equality.Semantic.DeepEqual(old.Spec.Remote, current.Spec.Remote)
}

// readdressed tells whether other addresses are a node's than before.
func readdressed(old, current *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(old.Status.Addresses, current.Status.Addresses) ||
		!equality.Semantic.DeepEqual(old.Spec.PodCIDRs, current.Spec.PodCIDRs)
}

// resized tells whether Services have other addresses than before.
func resized(old, current *networkingv1.ServiceCIDR) bool {
	return !equality.Semantic.DeepEqual(old.Spec, current.Spec)
}

// lookAtAll looks at all slices, and lookAtAllOf at those of one consumer, by the
// name of its ForeignCluster.
func (c *EndpointSlices) lookAtAll(after time.Duration) {
	// Listing a cache fails only with a selector that cannot be read.
	all, _ := c.shadows.List(labels.Everything())
	for _, shadow := range all {
		c.queue.AddAfter(cache.MetaObjectToName(shadow), after)
	}
}

func (c *EndpointSlices) lookAtAllOf(consumer string) {
	twins, _ := c.namespaces.List(labels.SelectorFromSet(labels.Set{v1alpha1.LabelRole: v1alpha1.RoleTwin, v1alpha1.LabelForeignCluster: consumer}))
	for _, twin := range twins {
		all, _ := c.shadows.ShadowEndpointSlices(twin.Name).List(labels.Everything())
		for _, shadow := range all {
			c.queue.Add(cache.MetaObjectToName(shadow))
		}
	}
}

// tooSoon is how long a slice that was just written waits for its next write.
func (c *EndpointSlices) tooSoon(key cache.ObjectName) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	last, ok := c.written[key]
	if !ok {
		return 0
	}
	return max(0, slicePace-c.clock.Since(last))
}

func (c *EndpointSlices) wrote(key cache.ObjectName) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.written[key] = c.clock.Now()
}

func (c *EndpointSlices) forget(key cache.ObjectName) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.written, key)
}

// isSilent tells whether a consumer gives no sign of life.
func isSilent(cluster *v1alpha1.ForeignCluster) bool {
	return meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ConditionConsumerAlive)
}
