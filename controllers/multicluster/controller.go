// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcs "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"
	mcsinformers "sigs.k8s.io/mcs-api/pkg/client/informers/externalversions/apis/v1alpha1"
	mcslisters "sigs.k8s.io/mcs-api/pkg/client/listers/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const (
	workers = 2
	// settle is how long a change of a Service or of its endpoints may bring
	// others with it. A consumer changes what it has in a twin as often as it
	// likes: what that costs here is bounded.
	settle = 500 * time.Millisecond
)

// Installation is what the controller knows of its own.
type Installation struct {
	// ClusterName is how this cluster calls itself.
	ClusterName string
	// Account is the service account that the controller runs as, in
	// AccountNamespace: where there are exports it is given the right to make
	// EndpointSlices.
	Account, AccountNamespace string
}

// Controller keeps the ServiceImports of this cluster, with their
// EndpointSlices, and tells how ServiceExports stand.
type Controller struct {
	kube   kubernetes.Interface
	mcs    mcs.Interface
	own    Installation
	events record.EventRecorder
	served *Served

	namespaces   corelisters.NamespaceLister
	offloadings  listers.NamespaceOffloadingLister
	clusters     listers.ForeignClusterLister
	virtualNodes listers.VirtualNodeLister
	// bindingInformers cache the bindings of one name alone.
	bindingInformers kubeinformers.SharedInformerFactory
	bindings         rbaclisters.RoleBindingLister

	queue *queue.Controller[cache.ObjectName]
	// session is what is known while this cluster serves the API; nil otherwise.
	session atomic.Pointer[session]
	// told holds what was said last about a Service whose import is in the way.
	told sync.Map
}

// session is what is known of the API while this cluster serves it.
type session struct {
	exports mcslisters.ServiceExportLister
	// imports are those that were made here.
	imports mcslisters.ServiceImportLister
	// copies are the Services in twins that are exported from their homes.
	copies corelisters.ServiceLister
	// watch is that of a namespace; nil while it is not complete.
	watch func(ctx context.Context, namespace string) (*watches.NamespaceServices, error)
	// forget ends the watch of a namespace.
	forget func(namespace string)
	// during is the context of the session.
	during context.Context
}

// New makes the controller and asks the informers for what it reads.
func New(kube kubernetes.Interface, client mcs.Interface,
	kubeInformers kubeinformers.SharedInformerFactory, federationInformers externalversions.SharedInformerFactory,
	events record.EventRecorder, own Installation, clock clock.Clock,
) (*Controller, error) {
	group := federationInformers.Federation().V1alpha1()
	c := &Controller{
		kube: kube, mcs: client, own: own, events: events,
		served:       NewServed(kube, clock, mcsv1alpha1.ServiceExportPluralName, mcsv1alpha1.ServiceImportPluralName),
		namespaces:   kubeInformers.Core().V1().Namespaces().Lister(),
		offloadings:  group.NamespaceOffloadings().Lister(),
		clusters:     group.ForeignClusters().Lister(),
		virtualNodes: group.VirtualNodes().Lister(),
		bindingInformers: kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0, kubeinformers.WithTransform(remote.Trim),
			kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, binding).String()
			})),
	}
	c.queue = queue.New("service-export", workers, c.reconcile)
	bindings := c.bindingInformers.Rbac().V1().RoleBindings()
	c.bindings = bindings.Lister()
	// The listers need their informers to be running.
	kubeInformers.Core().V1().Namespaces().Informer()
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		differ   func(old, current any) bool
		handle   func(obj metav1.Object)
	}{
		{bindings.Informer(), always, func(obj metav1.Object) { c.lookAt(obj.GetNamespace()) }},
		{group.NamespaceOffloadings().Informer(), always, func(obj metav1.Object) { c.lookAt(obj.GetNamespace()) }},
		{group.ForeignClusters().Informer(), networkTurned, func(metav1.Object) { c.lookAt(metav1.NamespaceAll) }},
		{group.VirtualNodes().Informer(), generationTurned, func(metav1.Object) { c.lookAt(metav1.NamespaceAll) }},
	} {
		if _, err := watched.informer.AddEventHandler(on(watched.differ, watched.handle)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// on is told of objects that came, went, or differ in what counts.
func on(differ func(old, current any) bool, handle func(metav1.Object)) cache.ResourceEventHandler {
	one := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if object, ok := obj.(metav1.Object); ok {
			handle(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: one,
		UpdateFunc: func(old, current any) {
			if differ(old, current) {
				one(current)
			}
		},
		DeleteFunc: one,
	}
}

func always(any, any) bool { return true }

// networkTurned tells whether the pods of another cluster are reached
// otherwise than before.
func networkTurned(old, current any) bool {
	before, ok1 := old.(*v1alpha1.ForeignCluster)
	after, ok2 := current.(*v1alpha1.ForeignCluster)
	return ok1 && ok2 && before.Status.Networking != after.Status.Networking
}

func generationTurned(old, current any) bool {
	before, ok1 := old.(metav1.Object)
	after, ok2 := current.(metav1.Object)
	return ok1 && ok2 && before.GetGeneration() != after.GetGeneration()
}

// Run works until the context ends. The shared informers are synced before.
func (c *Controller) Run(ctx context.Context) {
	c.bindingInformers.StartWithContext(ctx)
	defer c.bindingInformers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.bindingInformers.Rbac().V1().RoleBindings().Informer().HasSynced) {
		return
	}
	var running sync.WaitGroup
	running.Go(func() { c.served.Run(ctx) })
	running.Go(func() {
		c.served.Follow(ctx, func(ctx context.Context, served bool) {
			if served {
				c.serve(ctx)
			}
		})
	})
	running.Go(func() { c.queue.Run(ctx) })
	running.Wait()
}

// serve watches what the API is about, until the context ends.
func (c *Controller) serve(ctx context.Context) {
	managed := labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}.String()
	marked := labels.Set{v1alpha1.LabelExported: "true"}.String()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	exports := mcsinformers.NewServiceExportInformer(c.mcs, metav1.NamespaceAll, 0, indexers)
	imports := mcsinformers.NewFilteredServiceImportInformer(c.mcs, metav1.NamespaceAll, 0, indexers, func(options *metav1.ListOptions) { options.LabelSelector = managed })
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(c.kube, 0,
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = marked }))
	copies := factory.Core().V1().Services()
	var running sync.WaitGroup
	defer running.Wait()
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		exports: c.queue.Handle(queue.ObjectKeys), imports: c.queue.Handle(queue.ObjectKeys), copies.Informer(): on(always, c.settled),
	} {
		err := informer.SetTransform(remote.Trim)
		if err == nil {
			_, err = informer.AddEventHandler(handler)
		}
		if err != nil {
			// Neither fails before an informer is started.
			panic(err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), exports.HasSynced, imports.HasSynced, copies.Informer().HasSynced) {
		return
	}
	watches := watches.NewServices(c.kube, on(always, c.settled), c.lookAt)
	c.session.Store(&session{
		exports: mcslisters.NewServiceExportLister(exports.GetIndexer()),
		imports: mcslisters.NewServiceImportLister(imports.GetIndexer()),
		copies:  copies.Lister(),
		watch:   watches.Of,
		forget:  watches.Forget,
		during:  ctx,
	})
	defer c.session.Store(nil)
	c.lookAt(metav1.NamespaceAll)
	<-ctx.Done()
}

// settled looks at a Service that has changed, or whose EndpointSlices or those
// of its import have, once others had their time to.
func (c *Controller) settled(obj metav1.Object) {
	if _, ok := obj.(*discoveryv1.EndpointSlice); !ok {
		c.queue.AddAfter(cache.MetaObjectToName(obj), settle)
		return
	}
	for _, label := range []string{discoveryv1.LabelServiceName, mcsv1alpha1.LabelServiceName} {
		if service := obj.GetLabels()[label]; service != "" {
			c.queue.AddAfter(cache.NewObjectName(obj.GetNamespace(), service), settle)
		}
	}
}

// lookAt looks at everything that is exported or imported in a namespace, or in
// all.
func (c *Controller) lookAt(namespace string) {
	s := c.session.Load()
	if s == nil {
		return
	}
	for _, object := range s.in(namespace) {
		c.queue.Add(cache.MetaObjectToName(object))
	}
}

// in is everything that is exported or imported in a namespace, or in all.
func (s *session) in(namespace string) []metav1.Object {
	var all []metav1.Object
	// Listing a cache fails only with a selector that cannot be read.
	exports, _ := s.exports.ServiceExports(namespace).List(labels.Everything())
	for _, export := range exports {
		all = append(all, export)
	}
	imports, _ := s.imports.ServiceImports(namespace).List(labels.Everything())
	for _, one := range imports {
		all = append(all, one)
	}
	copies, _ := s.copies.Services(namespace).List(labels.Everything())
	for _, service := range copies {
		all = append(all, service)
	}
	return all
}

// place is what a namespace is to the federation.
type place int

const (
	// elsewhere is a namespace that is none of ours.
	elsewhere place = iota
	// atHome is one that extends to other clusters.
	atHome
	// inTwin is one that mirrors a consumer's.
	inTwin
)

// where tells what a namespace is, and if it is at home how it is offloaded.
func (c *Controller) where(namespace *corev1.Namespace) (place, *v1alpha1.NamespaceOffloading) {
	if namespace == nil || !namespace.DeletionTimestamp.IsZero() {
		return elsewhere, nil
	}
	switch namespace.Labels[v1alpha1.LabelRole] {
	case v1alpha1.RoleTwin:
		return inTwin, nil
	case "":
		offloading, err := c.offloadings.NamespaceOffloadings(namespace.Name).Get(v1alpha1.NamespaceOffloadingName)
		if err == nil && offloading.DeletionTimestamp.IsZero() {
			return atHome, offloading
		}
	}
	return elsewhere, nil
}
