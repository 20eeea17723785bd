// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// workers is how many foreign clusters are looked at at a time.
const workers = 4

// Config is what the controller works with.
type Config struct {
	Kube       kubernetes.Interface
	Federation versioned.Interface
	// FederationInformers see the whole cluster, InstallationInformers the
	// installation namespace, and SecretInformers the Secret with the keys there.
	FederationInformers, InstallationInformers externalversions.SharedInformerFactory
	SecretInformers                            kubeinformers.SharedInformerFactory
	// LeaseInformers see the gateways' Lease; nil where nothing reads it.
	LeaseInformers kubeinformers.SharedInformerFactory
	// Gateways see what leads to the gateway; nil where no Service does.
	Gateways *GatewayInformers
	Events   record.EventRecorder
	Clock    clock.PassiveClock
	// ClusterID is this cluster's.
	ClusterID string
	// Namespace is where the product is installed.
	Namespace string
	// Networking says how the pods of two clusters reach each other, where a
	// ForeignCluster does not say.
	Networking v1alpha1.NetworkingMode
	Settings   Settings
}

// SecretInformers are the options of informers that see the Secret with the
// keys of the gateway, and no other one.
func SecretInformers(namespace string) []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", v1alpha1.WireGuardSecret).String()
		}),
		kubeinformers.WithTransform(withoutPrivateKey),
	}
}

// withoutPrivateKey drops what only the gateway reads, before it is cached.
func withoutPrivateKey(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		secret.ManagedFields = nil
		delete(secret.Data, v1alpha1.WireGuardPrivateKey)
	}
	return object, nil
}

// reconciler agrees with one foreign cluster after the other.
type reconciler struct {
	*Config
	clusters  listers.ForeignClusterLister
	requests  listers.ResourceRequestLister
	configs   listers.NetworkConfigLister
	pools     listers.AddressPoolLister
	mappings  listers.AddressMappingNamespaceLister
	endpoints listers.TunnelEndpointNamespaceLister
	secrets   corelisters.SecretNamespaceLister
	leases    coordinationlisters.LeaseNamespaceLister
	infos     listers.ClusterInfoLister
	// gateway is whether there is one that tells of the tunnels, and again has a
	// key looked at.
	gateway gatewayLife
	again   func(cache.ObjectName)
	// gateways tell where our gateway is called; nil where an administrator says
	// so, or nobody does.
	gateways *gateways
	// vain holds an attempt for each foreign cluster that there were no addresses
	// for, and for each family that this cluster has no external CIDR of.
	vain sync.Map
	// pooling is held by who makes the pools.
	pooling sync.Mutex
}

// New makes the controller of the tunnels.
func New(config *Config) (*queue.Controller[cache.ObjectName], error) {
	everywhere, here := config.FederationInformers.Federation().V1alpha1(), config.InstallationInformers.Federation().V1alpha1()
	secrets := config.SecretInformers.Core().V1().Secrets()
	r := &reconciler{
		Config:    config,
		clusters:  everywhere.ForeignClusters().Lister(),
		requests:  everywhere.ResourceRequests().Lister(),
		configs:   everywhere.NetworkConfigs().Lister(),
		pools:     everywhere.AddressPools().Lister(),
		mappings:  here.AddressMappings().Lister().AddressMappings(config.Namespace),
		endpoints: here.TunnelEndpoints().Lister().TunnelEndpoints(config.Namespace),
		secrets:   secrets.Lister().Secrets(config.Namespace),
		infos:     everywhere.ClusterInfos().Lister(),
	}
	controller := queue.New("network", workers, r.reconcile)
	r.again = controller.Add
	all := controller.Handle(r.all)
	watches := []watch{
		{everywhere.ForeignClusters().Informer(), controller.Handle(queue.ObjectKeys)},
		{everywhere.ResourceRequests().Informer(), controller.Handle(byNamespace)},
		{everywhere.NetworkConfigs().Informer(), controller.Handle(byNamespace)},
		{everywhere.AddressPools().Informer(), unless(sameSpec[*v1alpha1.AddressPool], controller.Handle(func(object any) []cache.ObjectName {
			r.vain.Clear()
			return r.all(object)
		}))},
		{here.AddressMappings().Informer(), controller.Handle(byLabel)},
		{here.TunnelEndpoints().Informer(), controller.Handle(byName)},
		{secrets.Informer(), all},
		{everywhere.ClusterInfos().Informer(), unless(sameInfo, all)},
	}
	watches = append(watches, r.watchGateways(all)...)
	if config.LeaseInformers != nil {
		leases := config.LeaseInformers.Coordination().V1().Leases()
		r.leases = leases.Lister().Leases(config.Namespace)
		watches = append(watches, watch{leases.Informer(), controller.Handle(func(any) []cache.ObjectName { return []cache.ObjectName{gatewayLease} })})
	}
	for _, watched := range watches {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, fmt.Errorf("watch for the tunnels: %w", err)
		}
	}
	return controller, nil
}

// watch is what is watched, and what for.
type watch struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// watchGateways has it learnt where our gateway is called, if no administrator
// says so, and tells what moves that.
func (r *reconciler) watchGateways(handler cache.ResourceEventHandler) []watch {
	if r.Gateways == nil || len(r.Settings.Endpoints) > 0 {
		return nil
	}
	r.gateways = r.Gateways.gateways(r.Namespace)
	return []watch{
		{r.Gateways.Named.Core().V1().Services().Informer(), handler},
		{r.Gateways.Nodes.Core().V1().Nodes().Informer(), unless(sameNode, handler)},
		{r.Gateways.Pods.Core().V1().Pods().Informer(), unless(samePlace, handler)},
	}
}

// ownKeys is what is reconciled beside foreign clusters, which have a name: the
// keys of the gateway. They are created once the ranges of pods are known,
// before any tunnel is requested.
var ownKeys cache.ObjectName

// mode is how the pods of both clusters reach each other.
func (c *Config) mode(fc *v1alpha1.ForeignCluster) v1alpha1.NetworkingMode {
	return cmp.Or(fc.Spec.Networking, c.Networking)
}

// byNamespace leads from what is in the namespace of a peering to its foreign
// cluster.
func byNamespace(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	if name := naming.ForeignClusterOf(accessor.GetNamespace()); name != "" {
		return []cache.ObjectName{{Name: name}}
	}
	return nil
}

// byLabel leads from the range of a foreign cluster to it. Single addresses, of
// which there are many, are no part of what is agreed upon.
func byLabel(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil || accessor.GetLabels()[v1alpha1.LabelOrigin] != "" {
		return nil
	}
	if name := accessor.GetLabels()[v1alpha1.LabelForeignCluster]; name != "" {
		return []cache.ObjectName{{Name: name}}
	}
	return nil
}

// byName leads from a tunnel to the foreign cluster that it is called after.
func byName(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return []cache.ObjectName{{Name: accessor.GetName()}}
}

// all are the foreign clusters that are to have a tunnel, and our own keys.
func (r *reconciler) all(any) []cache.ObjectName {
	clusters, err := r.clusters.List(labels.Everything())
	if err != nil {
		return nil
	}
	var keys []cache.ObjectName
	if len(ownRanges(r.infos).Pods) > 0 {
		keys = append(keys, ownKeys)
	}
	for _, fc := range clusters {
		if r.mode(fc) == v1alpha1.NetworkingTunnel || inBand(fc) {
			keys = append(keys, cache.ObjectName{Name: fc.Name})
		}
	}
	return keys
}

// sameSpec tells whether nothing but the status of an object changed, as that
// of an address pool does with each mapping.
func sameSpec[T metav1.Object](a, b T) bool { return a.GetGeneration() == b.GetGeneration() }

// unless leaves out updates after which an object is the same in what matters.
func unless[T any](same func(a, b T) bool, handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { handler.OnAdd(object, false) },
		UpdateFunc: func(old, object any) {
			before, ok1 := old.(T)
			after, ok2 := object.(T)
			if !ok1 || !ok2 || !same(before, after) {
				handler.OnUpdate(old, object)
			}
		},
		DeleteFunc: handler.OnDelete,
	}
}
