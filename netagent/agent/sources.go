// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// Sources are the caches of what an agent reads.
type Sources struct {
	endpoints federationlisters.TunnelEndpointNamespaceLister
	mappings  federationlisters.AddressMappingNamespaceLister
	nodes     corelisters.NodeLister
	gateways  corelisters.PodNamespaceLister
	infos     federationlisters.ClusterInfoLister

	run    []func(stop <-chan struct{})
	synced []cache.InformerSynced
	// seen and gone tell of the agent's own workload what the watch told, and list
	// asks for those of its kind.
	seen, gone atomic.Bool
	own        string
	list       func(context.Context, metav1.ListOptions) (runtime.Object, error)
}

// lookPatience bounds that question, and asking how often it is put: six seconds
// in all, for a gateway has a handover to make in the 30 that its pod is given.
const lookPatience = 1500 * time.Millisecond

var asking = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 3}

// source is what is read, and who is told of it.
type source struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// NewSources makes the caches of what lies in a namespace, and of nodes. What
// names the agent's own workload is GatewayName or RouteName. Changed is called
// when something that matters has changed, leased with each state of the
// gateways' Lease, and keyed, which is for a gateway, with each of the Secret that
// holds its key.
func NewSources(kube kubernetes.Interface, federation versioned.Interface, namespace, own string,
	changed func(), leased func(*coordinationv1.Lease), keyed func(*corev1.Secret),
) (*Sources, error) {
	s := &Sources{own: own}
	agreed := externalversions.NewSharedInformerFactoryWithOptions(federation, 0, externalversions.WithTransform(trim), externalversions.WithNamespace(namespace))
	endpoints := agreed.Federation().V1alpha1().TunnelEndpoints()
	nodes := factory(kube, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelType + "!=" + v1alpha1.TypeVirtualNode
	}).Core().V1().Nodes()
	gateways := factory(kube, namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = "app.kubernetes.io/name=" + GatewayName
	}).Core().V1().Pods()
	lease := factory(kube, namespace, named(GatewayName)).Coordination().V1().Leases().Informer()
	apps := factory(kube, namespace, named(own)).Apps().V1()
	workload := apps.Deployments().Informer
	s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return kube.AppsV1().Deployments(namespace).List(ctx, o)
	}
	if own == RouteName {
		workload = apps.DaemonSets().Informer
		s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return kube.AppsV1().DaemonSets(namespace).List(ctx, o)
		}
	}
	infos := externalversions.NewSharedInformerFactoryWithOptions(federation, 0, externalversions.WithTransform(trim),
		externalversions.WithTweakListOptions(named(v1alpha1.ClusterInfoName))).Federation().V1alpha1().ClusterInfos()
	s.infos = infos.Lister()
	s.endpoints = endpoints.Lister().TunnelEndpoints(namespace)
	s.nodes, s.gateways = nodes.Lister(), gateways.Lister().Pods(namespace)

	sources := []source{
		{endpoints.Informer(), onChange(changed, func(a, b *v1alpha1.TunnelEndpoint) bool {
			return a.Generation == b.Generation && a.Status.PathMTU == b.Status.PathMTU
		})},
		{nodes.Informer(), onChange(changed, sameNode)},
		{infos.Informer(), onChange(changed, func(a, b *v1alpha1.ClusterInfo) bool { return slices.Equal(a.Status.Ranges, b.Status.Ranges) })},
		{gateways.Informer(), onChange(changed, func(a, b *corev1.Pod) bool { return runsOn(a) == runsOn(b) })},
		{lease, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { leased(o.(*coordinationv1.Lease)) },
			UpdateFunc: func(_, o any) { leased(o.(*coordinationv1.Lease)) },
			DeleteFunc: func(any) { leased(nil) },
		}},
		{workload(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.seen.Store(true); s.gone.Store(goes(o)) },
			UpdateFunc: func(_, o any) { s.gone.Store(goes(o)) },
			DeleteFunc: func(any) { s.gone.Store(true) },
		}},
	}
	if own == GatewayName {
		mappings := agreed.Federation().V1alpha1().AddressMappings()
		s.mappings = mappings.Lister().AddressMappings(namespace)
		secret := factory(kube, namespace, named(v1alpha1.WireGuardSecret)).Core().V1().Secrets().Informer()
		sources = append(sources,
			source{mappings.Informer(), onChange(changed, func(a, b *v1alpha1.AddressMapping) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) })},
			// Without the Secret a gateway stays as it is.
			source{secret, cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { keyed(o.(*corev1.Secret)) },
				UpdateFunc: func(_, o any) { keyed(o.(*corev1.Secret)) },
			}})
	}
	for _, source := range sources {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, fmt.Errorf("making a cache of what the agent reads: %w", err)
		}
		s.run, s.synced = append(s.run, source.informer.Run), append(s.synced, registration.HasSynced)
	}
	return s, nil
}

// Start fills the caches and has them follow while the agent watches, which it
// still does when its work has ended. It tells whether they were filled before
// that end.
func (s *Sources) Start(watching, working context.Context) bool {
	for _, run := range s.run {
		go run(watching.Done())
	}
	return cache.WaitForCacheSync(working.Done(), s.synced...)
}

// Objects are those that the caches hold; but nobody is active.
func (s *Sources) Objects() (Objects, error) {
	info, err := s.infos.Get(v1alpha1.ClusterInfoName)
	if err != nil && !apierrors.IsNotFound(err) {
		return Objects{}, err
	}
	o := Objects{Ranges: netmap.RangesOf(info)}
	if o.TunnelEndpoints, err = s.endpoints.List(labels.Everything()); err != nil {
		return Objects{}, err
	}
	// A route agent leads ranges to the gateway, and no single addresses.
	if s.mappings != nil {
		if o.Mappings, err = s.mappings.List(labels.Everything()); err != nil {
			return Objects{}, err
		}
	}
	if o.Nodes, err = s.nodes.List(labels.Everything()); err != nil {
		return Objects{}, err
	}
	pods, err := s.gateways.List(labels.Everything())
	for _, pod := range pods {
		if node := runsOn(pod); node != "" {
			o.Gateways = append(o.Gateways, node)
		}
	}
	slices.Sort(o.Gateways)
	o.Gateways = slices.Compact(o.Gateways)
	return o, err
}

// AwaitRanges blocks until ClusterInfo local names the ranges of pods, and reports whether it
// does before the work ends.
func (s *Sources) AwaitRanges(working context.Context) bool {
	return wait.PollUntilContextCancel(working, time.Second, true, func(context.Context) (bool, error) {
		info, err := s.infos.Get(v1alpha1.ClusterInfoName)
		return err == nil && len(netmap.RangesOf(info).Pods) > 0, nil
	}) == nil
}

// Gone tells whether the agent's own workload was deleted while the agent
// watched: then it ends for good, and not to be started again. The signal to end
// may be faster than the watch, so that is asked for, and again where there is no
// answer, while the watch goes on. Who may not ask any more has lost its role with
// its workload. Whose token is refused may have lost no more than its pod, in whose
// place another one is.
func (s *Sources) Gone() bool {
	if !s.seen.Load() {
		return false
	}
	there := true
	err := retry.OnError(asking, func(err error) bool { return !apierrors.IsForbidden(err) }, func() (err error) {
		if s.gone.Load() {
			there = false
			return nil
		}
		there, err = s.there()
		return err
	})
	switch {
	case err == nil:
		return !there
	case apierrors.IsForbidden(err), s.gone.Load():
		return true
	}
	klog.Background().Error(err, "It is not known whether the agent was removed, so the node stays as it is")
	return false
}

// there asks whether the agent's own workload is there, and stays.
func (s *Sources) there() (there bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookPatience)
	defer cancel()
	var only metav1.ListOptions
	named(s.own)(&only)
	list, err := s.list(ctx, only)
	if err != nil {
		return false, err
	}
	err = meta.EachListItem(list, func(workload runtime.Object) error {
		there = there || !goes(workload)
		return nil
	})
	return there, err
}

func factory(kube kubernetes.Interface, namespace string, tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(trim),
		informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak))
}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// goes tells whether an object is being deleted, and waits for what it owns.
func goes(object any) bool {
	accessor, err := meta.Accessor(object)
	return err == nil && accessor.GetDeletionTimestamp() != nil
}

// onChange calls changed when an object came or went, or is not the same in
// what matters.
func onChange[T any](changed func(), same func(a, b T) bool) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(old, now any) {
			if !same(old.(T), now.(T)) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	}
}

func sameNode(a, b *corev1.Node) bool {
	return equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) && slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs)
}

// runsOn is the node that a pod has not ended on; empty if there is none.
func runsOn(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	return pod.Spec.NodeName
}

// trim drops what no agent reads, which is most of an object.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	switch o := object.(type) {
	case *corev1.Node:
		o.Annotations = nil
		o.Status = corev1.NodeStatus{Addresses: o.Status.Addresses}
	case *corev1.Pod:
		o.Annotations = nil
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName}
		o.Status = corev1.PodStatus{Phase: o.Status.Phase}
	}
	return object, nil
}
