// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// Indexes of AddressMappings that were made here: by what they stand for, and by
// the foreign cluster that they are for.
const (
	indexOrigin = "origin"
	indexReader = "reader"
)

// AddressesConfig is what the controller of single addresses works with.
type AddressesConfig struct {
	Kube       kubernetes.Interface
	Federation versioned.Interface
	// FederationInformers see the whole cluster, InstallationInformers the
	// installation namespace, and BindingInformers the RoleBinding of those who
	// read AddressMappings there.
	FederationInformers, InstallationInformers externalversions.SharedInformerFactory
	BindingInformers                           kubeinformers.SharedInformerFactory
	// KubeInformers see the nodes of this cluster.
	KubeInformers kubeinformers.SharedInformerFactory
	// Pods are those of the virtual nodes.
	Pods   *watches.Pods
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// Namespace is where the product is installed.
	Namespace string
	// ClusterID is this cluster's.
	ClusterID string
	// Home is the address of this cluster's API server that providers reach through
	// tunnels; invalid where they do not.
	Home netip.Addr
}

// podAddresses gives the pods of this cluster that run on one provider addresses
// that other providers call them by, endpoints that are no pods those that
// providers do, and so with this cluster's API server.
type podAddresses struct {
	*AddressesConfig
	clusters     listers.ForeignClusterLister
	virtualNodes listers.VirtualNodeLister
	maps         listers.NamespaceMapLister
	offloadings  listers.NamespaceOffloadingLister
	pools        listers.AddressPoolLister
	infos        listers.ClusterInfoLister
	endpoints    listers.TunnelEndpointNamespaceLister
	mappings     cache.Indexer
	bindings     rbaclisters.RoleBindingNamespaceLister
	nodes        corelisters.NodeLister
	// services are the Services and EndpointSlices of a namespace; nil while they
	// are not known. forgetServices ends that they are watched.
	services       func(ctx context.Context, namespace string) (*watches.NamespaceServices, error)
	forgetServices func(namespace string)
	// podOn is a pod of a virtual node, or nil, and whether all of its pods are
	// known.
	podOn func(ctx context.Context, node *v1alpha1.VirtualNode, key cache.ObjectName) (pod *corev1.Pod, complete bool, err error)

	mu sync.Mutex
	// exhausted is until when IPv4 (true) or IPv6 is not asked for, since there
	// were no addresses left.
	exhausted map[bool]time.Time
	// told is what the owner of a namespace, or of a foreign cluster, was told
	// last.
	told map[cache.ObjectName]string
}

// readers is what is reconciled beside pods, which have a name and a namespace,
// the endpoints of a namespace, which has no name beside it, and foreign clusters,
// which have a name and call the API server: who may read AddressMappings.
var readers cache.ObjectName

// NewAddresses makes the controller of single addresses. Its keys are pods,
// namespaces for endpoints that are no pods, and foreign clusters for the API
// server.
func NewAddresses(config *AddressesConfig) (*queue.Controller[cache.ObjectName], error) {
	everywhere, here := config.FederationInformers.Federation().V1alpha1(), config.InstallationInformers.Federation().V1alpha1()
	mappings := here.AddressMappings().Informer()
	bindings := config.BindingInformers.Rbac().V1().RoleBindings()
	if err := mappings.AddIndexers(mappingIndexers); err != nil {
		return nil, fmt.Errorf("index the AddressMappings: %w", err)
	}
	a := &podAddresses{
		AddressesConfig: config,
		clusters:        everywhere.ForeignClusters().Lister(),
		virtualNodes:    everywhere.VirtualNodes().Lister(),
		maps:            everywhere.NamespaceMaps().Lister(),
		offloadings:     everywhere.NamespaceOffloadings().Lister(),
		pools:           everywhere.AddressPools().Lister(),
		infos:           everywhere.ClusterInfos().Lister(),
		endpoints:       here.TunnelEndpoints().Lister().TunnelEndpoints(config.Namespace),
		mappings:        mappings.GetIndexer(),
		bindings:        bindings.Lister().RoleBindings(config.Namespace),
		nodes:           config.KubeInformers.Core().V1().Nodes().Lister(),
		podOn:           config.watchedPod,
		exhausted:       map[bool]time.Time{},
		told:            map[cache.ObjectName]string{},
	}
	controller := queue.New("addresses", workers, a.reconcile)
	watches := watches.NewServices(config.Kube, a.onEndpoints(func(namespace string) {
		controller.AddAfter(cache.ObjectName{Namespace: namespace}, endpointsSettle)
	}), func(namespace string) { controller.Add(cache.ObjectName{Namespace: namespace}) })
	a.services, a.forgetServices = watches.Of, watches.Forget
	config.Pods.Listen(func(_ string, pod *corev1.Pod) { controller.Add(cache.MetaObjectToName(pod)) })
	add := func(keys []cache.ObjectName) {
		for _, key := range keys {
			controller.Add(key)
		}
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{mappings, controller.Handle(origins)},
		{everywhere.VirtualNodes().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { controller.Add(readers); add(byNamespace(object)) },
			DeleteFunc: func(object any) {
				controller.Add(readers)
				// The pods of a node that is gone are gone without a word.
				add(a.mapped())
			},
		}},
		{everywhere.NamespaceMaps().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { add(a.within(namesOf(object))) },
			UpdateFunc: func(old, object any) { add(a.within(namesOf(old).SymmetricDifference(namesOf(object)))) },
			DeleteFunc: func(object any) { add(a.within(namesOf(object))) },
		}},
		// A virtual node says what of Services is sent there.
		{everywhere.VirtualNodes().Informer(), unless(sameSpec[*v1alpha1.VirtualNode], controller.Handle(func(object any) []cache.ObjectName {
			node, ok := object.(*v1alpha1.VirtualNode)
			if !ok {
				return nil
			}
			return keysOf(a.extended(node.Namespace))
		}))},
		// What was an endpoint may be a node now.
		{config.KubeInformers.Core().V1().Nodes().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) { add(a.endpointsMapped()) }}},
		{here.TunnelEndpoints().Informer(), unless(sameSpec[*v1alpha1.TunnelEndpoint], controller.Handle(a.behindTunnel))},
		{everywhere.AddressPools().Informer(), unless(sameSpec[*v1alpha1.AddressPool], controller.Handle(func(object any) []cache.ObjectName {
			if pool, ok := object.(*v1alpha1.AddressPool); !ok || pool.Name != ExternalAddressPool {
				return nil
			}
			a.replenish()
			return a.all(nil)
		}))},
		{everywhere.NamespaceOffloadings().Informer(), cache.ResourceEventHandlerFuncs{DeleteFunc: a.forget}},
		{everywhere.ForeignClusters().Informer(), cache.ResourceEventHandlerFuncs{DeleteFunc: a.forget}},
		{bindings.Informer(), controller.Handle(func(any) []cache.ObjectName { return []cache.ObjectName{readers} })},
	} {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, fmt.Errorf("watch for the addresses of pods: %w", err)
		}
	}
	return controller, nil
}

// mappingIndexers find what was made here among the AddressMappings.
var mappingIndexers = cache.Indexers{
	indexOrigin: func(object any) ([]string, error) {
		var values []string
		for _, origin := range origins(object) {
			values = append(values, origin.String())
		}
		return values, nil
	},
	indexReader: func(object any) ([]string, error) {
		if mapping, ok := object.(*v1alpha1.AddressMapping); ok && isSingle(mapping) {
			return []string{mapping.Labels[v1alpha1.LabelForeignCluster]}, nil
		}
		return nil, nil
	},
}

// isSingle tells whether a mapping is one of those that are made here, and none
// of a range of another cluster.
func isSingle(mapping *v1alpha1.AddressMapping) bool {
	return isOurs(mapping) && mapping.Labels[v1alpha1.LabelOrigin] != ""
}

// origins leads from a mapping to what it was made for.
func origins(object any) []cache.ObjectName {
	mapping, ok := object.(*v1alpha1.AddressMapping)
	if !ok || !isSingle(mapping) {
		return nil
	}
	return []cache.ObjectName{originOf(mapping)}
}

// originOf is the pod that a mapping was made for, the namespace of the endpoint,
// or the foreign cluster that calls the API server by it.
func originOf(mapping *v1alpha1.AddressMapping) cache.ObjectName {
	if namespace := mapping.Annotations[v1alpha1.AnnotationOriginNamespace]; namespace != "" {
		return cache.ObjectName{Namespace: namespace}
	}
	if pod, err := cache.ParseObjectName(mapping.Annotations[v1alpha1.AnnotationOriginPod]); err == nil && pod.Namespace != "" {
		return pod
	}
	return cache.ObjectName{Name: mapping.Labels[v1alpha1.LabelForeignCluster]}
}

// mapped are all that there are mappings for.
func (a *podAddresses) mapped() []cache.ObjectName {
	var keys []cache.ObjectName
	for _, object := range a.mappings.List() {
		keys = append(keys, origins(object)...)
	}
	return keys
}

// endpointsMapped are the namespaces with mappings of endpoints that are no pods.
func (a *podAddresses) endpointsMapped() []cache.ObjectName {
	return slices.DeleteFunc(a.mapped(), func(key cache.ObjectName) bool { return key.Namespace == "" || key.Name != "" })
}

// all are the pods that are known, the namespaces that extend to other clusters,
// the foreign clusters with a tunnel, and whatever there are mappings for.
func (a *podAddresses) all(any) []cache.ObjectName {
	keys := slices.Concat(a.mapped(), a.pods(func(string) bool { return true }), keysOf(a.extended(metav1.NamespaceAll)))
	// Listing a cache fails only with a selector that cannot be read.
	tunnels, _ := a.endpoints.List(everything)
	for _, tunnel := range tunnels {
		keys = append(keys, cache.ObjectName{Name: tunnel.Name})
	}
	return keys
}

// behindTunnel are the foreign cluster of a tunnel, and the pods that it means
// something to: those that run there, and those that it calls or might.
func (a *podAddresses) behindTunnel(object any) []cache.ObjectName {
	tunnel, ok := object.(*v1alpha1.TunnelEndpoint)
	if !ok {
		return nil
	}
	keys := []cache.ObjectName{{Name: tunnel.Name}}
	called, _ := a.mappings.ByIndex(indexReader, tunnel.Name)
	for _, mapping := range called {
		keys = append(keys, origins(mapping)...)
	}
	// Listing a cache fails only with a selector that cannot be read.
	namespace := naming.PeerNamespace(tunnel.Name)
	nodes, _ := a.virtualNodes.VirtualNodes(namespace).List(everything)
	for _, node := range nodes {
		there, _ := a.Pods.Seen(node.Spec.NodeName)
		for _, pod := range there {
			keys = append(keys, cache.MetaObjectToName(pod))
		}
	}
	return append(keys, a.within(a.extended(namespace))...)
}

// extended are the namespaces that extend to the cluster of a peer namespace, or
// to any.
func (a *podAddresses) extended(namespace string) sets.Set[string] {
	names := sets.New[string]()
	// Listing a cache fails only with a selector that cannot be read.
	all, _ := a.maps.NamespaceMaps(namespace).List(everything)
	for _, m := range all {
		names = names.Union(namesOf(m))
	}
	return names
}

// within are the known pods of some namespaces, and their endpoints.
func (a *podAddresses) within(namespaces sets.Set[string]) []cache.ObjectName {
	if len(namespaces) == 0 {
		return nil
	}
	return append(a.pods(namespaces.Has), keysOf(namespaces)...)
}

func (a *podAddresses) pods(in func(namespace string) bool) []cache.ObjectName {
	nodes, err := a.virtualNodes.List(everything)
	if err != nil {
		return nil
	}
	var keys []cache.ObjectName
	for _, node := range nodes {
		known, _ := a.Pods.Seen(node.Spec.NodeName)
		for _, pod := range known {
			if in(pod.Namespace) {
				keys = append(keys, cache.MetaObjectToName(pod))
			}
		}
	}
	return keys
}

// namesOf are the namespaces of a NamespaceMap of this cluster's.
func namesOf(object any) sets.Set[string] {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	names := sets.New[string]()
	if m, ok := object.(*v1alpha1.NamespaceMap); ok && naming.IsPeerNamespace(m.Namespace) {
		for _, namespace := range m.Spec.Namespaces {
			names.Insert(namespace.Name)
		}
	}
	return names
}

// forget forgets what the owner of a namespace, or of a foreign cluster, was told.
func (a *podAddresses) forget(object any) {
	if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.told, name)
	}
}
