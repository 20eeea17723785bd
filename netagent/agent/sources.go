// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// Sources are the caches of the API objects that an agent reads.
type Sources struct {
	endpoints federationlisters.TunnelEndpointNamespaceLister
	mappings  federationlisters.AddressMappingNamespaceLister
	reaches   federationlisters.TunnelReachNamespaceLister
	nodes     corelisters.NodeLister
	gateways  corelisters.PodNamespaceLister
	infos     federationlisters.ClusterInfoLister
	// secrets and configMaps have the keys of the gateway. They are nil for a route agent.
	secrets    corelisters.SecretNamespaceLister
	configMaps corelisters.ConfigMapNamespaceLister

	run    []func(stop <-chan struct{})
	synced []cache.InformerSynced
	// reachesSynced reports whether the TunnelReaches are cached. They are not part of synced, because an API server of
	// an earlier version does not serve them.
	reachesSynced cache.InformerSynced
	// publicKeySynced reports whether the ConfigMap with the public key is cached. It is not part of synced, because a
	// role of an earlier version does not permit watching the ConfigMap.
	publicKeySynced cache.InformerSynced
	changed         func()
	// The workload is the Deployment or DaemonSet that runs this agent. seen is set once the cache has it, and
	// removed once it is deleted or has a deletion timestamp. list lists the workloads of its kind.
	seen, removed atomic.Bool
	workload      string
	list          func(context.Context, metav1.ListOptions) (runtime.Object, error)
}

// removalTimeout bounds each request of Removed, and removalBackoff the number of requests. They take ten seconds
// at most, as the handover of a gateway must also fit into the pod's termination grace period of 30 seconds. The
// pauses between the requests are 3.5 seconds, longer than a pod runs that is deleted without a grace period: the
// kubelet kills its containers within two seconds.
const removalTimeout = 1500 * time.Millisecond

var removalBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 4}

// source is an informer and the handler of its events.
type source struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// NewSources creates the caches of the objects in a namespace, and of nodes. Workload is GatewayName or
// RouteName, the name of the workload that runs this agent. Changed is called when an object that determines the
// state of the node changes, and onLease with each version of the gateways' Lease (nil when it is deleted). For the
// gateway only, onKey is called with each version of the Secret that holds the private key (nil when it is deleted),
// and onPublicKey when the ConfigMap with the public key changes. NewSources fails if an event handler cannot be added.
func NewSources(kube kubernetes.Interface, federation versioned.Interface, namespace, workload string,
	changed func(), onLease func(*coordinationv1.Lease), onKey func(*corev1.Secret), onPublicKey func(),
) (*Sources, error) {
	s := &Sources{workload: workload, changed: changed}
	federationFactory := externalversions.NewSharedInformerFactoryWithOptions(
		federation,
		0,
		externalversions.WithTransform(trim),
		externalversions.WithNamespace(namespace),
	)
	endpoints := federationFactory.Federation().V1alpha1().TunnelEndpoints()
	nodes := factory(kube, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelType + "!=" + v1alpha1.TypeVirtualNode
	}).Core().V1().Nodes()
	gateways := factory(kube, namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = "app.kubernetes.io/name=" + GatewayName
	}).Core().V1().Pods()
	lease := factory(kube, namespace, byName(GatewayName)).Coordination().V1().Leases().Informer()
	apps := factory(kube, namespace, byName(workload)).Apps().V1()
	informerOf := apps.Deployments().Informer
	s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return kube.AppsV1().Deployments(namespace).List(ctx, o)
	}
	if workload == RouteName {
		informerOf = apps.DaemonSets().Informer
		s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return kube.AppsV1().DaemonSets(namespace).List(ctx, o)
		}
	}
	infos := externalversions.NewSharedInformerFactoryWithOptions(federation, 0, externalversions.WithTransform(trim),
		externalversions.WithTweakListOptions(byName(v1alpha1.ClusterInfoName))).Federation().V1alpha1().ClusterInfos()
	s.infos = infos.Lister()
	s.endpoints = endpoints.Lister().TunnelEndpoints(namespace)
	s.nodes, s.gateways = nodes.Lister(), gateways.Lister().Pods(namespace)

	sources := []source{
		{endpoints.Informer(), onChange(changed, func(a, b *v1alpha1.TunnelEndpoint) bool {
			return a.Generation == b.Generation && a.Status.PathMTU == b.Status.PathMTU
		})},
		{nodes.Informer(), onChange(changed, sameNode)},
		{
			infos.Informer(),
			onChange(changed, func(a, b *v1alpha1.ClusterInfo) bool { return slices.Equal(a.Status.Ranges, b.Status.Ranges) }),
		},
		{gateways.Informer(), onChange(changed, func(a, b *corev1.Pod) bool { return nodeOf(a) == nodeOf(b) })},
		{lease, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { onLease(o.(*coordinationv1.Lease)) },
			UpdateFunc: func(_, o any) { onLease(o.(*coordinationv1.Lease)) },
			DeleteFunc: func(any) { onLease(nil) },
		}},
		{informerOf(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.seen.Store(true); s.removed.Store(isDeleting(o)) },
			UpdateFunc: func(_, o any) { s.removed.Store(isDeleting(o)) },
			DeleteFunc: func(any) { s.removed.Store(true) },
		}},
	}
	if workload == GatewayName {
		mappings := federationFactory.Federation().V1alpha1().AddressMappings()
		s.mappings = mappings.Lister().AddressMappings(namespace)
		secret := factory(kube, namespace, byName(v1alpha1.WireGuardSecret)).Core().V1().Secrets()
		s.secrets = secret.Lister().Secrets(namespace)
		sources = append(
			sources,
			source{
				mappings.Informer(),
				onChange(changed, func(a, b *v1alpha1.AddressMapping) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) }),
			},
			source{secret.Informer(), cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { onKey(o.(*corev1.Secret)) },
				UpdateFunc: func(_, o any) { onKey(o.(*corev1.Secret)) },
				DeleteFunc: func(any) { onKey(nil) },
			}},
		)
	}
	if workload == GatewayName {
		reaches := federationFactory.Federation().V1alpha1().TunnelReaches()
		s.reaches = reaches.Lister().TunnelReaches(namespace)
		registration, err := reaches.Informer().AddEventHandler(
			onChange(changed, func(a, b *v1alpha1.TunnelReach) bool { return slices.Equal(a.Spec.Addresses, b.Spec.Addresses) }))
		if err != nil {
			return nil, fmt.Errorf("adding event handler: %w", err)
		}
		s.run, s.reachesSynced = append(s.run, reaches.Informer().Run), registration.HasSynced
		publicKey := factory(kube, namespace, byName(v1alpha1.WireGuardConfigMap)).Core().V1().ConfigMaps()
		s.configMaps = publicKey.Lister().ConfigMaps(namespace)
		registration, err = publicKey.Informer().AddEventHandler(onChange(onPublicKey,
			func(a, b *corev1.ConfigMap) bool { return maps.Equal(a.Data, b.Data) }))
		if err != nil {
			return nil, fmt.Errorf("adding event handler: %w", err)
		}
		s.run, s.publicKeySynced = append(s.run, publicKey.Informer().Run), registration.HasSynced
	}
	for _, source := range sources {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, fmt.Errorf("adding event handler: %w", err)
		}
		s.run, s.synced = append(s.run, source.informer.Run), append(s.synced, registration.HasSynced)
	}
	return s, nil
}

// Start starts the caches, which run until the context watching ends, and blocks until all objects are cached, except
// TunnelReaches and the ConfigMap with the public key. It returns false if the context working ends before that.
func (s *Sources) Start(watching, working context.Context) bool {
	for _, run := range s.run {
		go run(watching.Done())
	}
	if s.reachesSynced != nil {
		go func() {
			if cache.WaitForCacheSync(watching.Done(), s.reachesSynced) {
				s.changed()
			}
		}()
	}
	return cache.WaitForCacheSync(working.Done(), s.synced...)
}

// Objects returns the cached objects, without Active, which the caller must set. It fails if a cache cannot be
// read, or while a tunnel needs the TunnelReaches and they are not cached.
func (s *Sources) Objects() (Objects, error) {
	o := Objects{Ranges: s.Ranges()}
	var err error
	if o.TunnelEndpoints, err = s.endpoints.List(labels.Everything()); err != nil {
		return Objects{}, err
	}
	// Route agents route whole CIDRs to the gateway and need no mappings.
	if s.mappings != nil {
		if o.Mappings, err = s.mappings.List(labels.Everything()); err != nil {
			return Objects{}, err
		}
	}
	if s.reaches != nil {
		if !s.reachesSynced() && slices.ContainsFunc(o.TunnelEndpoints, restricted) {
			return Objects{}, errors.New("the TunnelReaches are not cached: see the errors of their watch")
		}
		if o.Reaches, err = s.reaches.List(labels.Everything()); err != nil {
			return Objects{}, err
		}
	}
	if o.Nodes, err = s.nodes.List(labels.Everything()); err != nil {
		return Objects{}, err
	}
	pods, err := s.gateways.List(labels.Everything())
	for _, pod := range pods {
		if node := nodeOf(pod); node != "" {
			o.Gateways = append(o.Gateways, node)
		}
	}
	slices.Sort(o.Gateways)
	o.Gateways = slices.Compact(o.Gateways)
	return o, err
}

// Secret returns the cached Secret with the keys of the gateway; nil if it does not exist. It is for gateways only.
func (s *Sources) Secret() *corev1.Secret {
	// A lister fails only if the object is not cached.
	secret, _ := s.secrets.Get(v1alpha1.WireGuardSecret)
	return secret
}

// PublicKey returns the cached ConfigMap with the public key of the gateway; nil if it does not exist. known is false
// until the ConfigMap, or its absence, is cached. It is for gateways only.
func (s *Sources) PublicKey() (published *corev1.ConfigMap, known bool) {
	published, _ = s.configMaps.Get(v1alpha1.WireGuardConfigMap)
	return published, s.publicKeySynced()
}

// restricted reports whether the peer of a tunnel reaches only the pods in its TunnelReach.
func restricted(te *v1alpha1.TunnelEndpoint) bool {
	return te.Spec.Reach != "" && te.Spec.Reach != v1alpha1.ReachAll
}

// AwaitRanges blocks until the ClusterInfo named local has pod ranges, and returns true. It returns false if the
// context working ends before that.
func (s *Sources) AwaitRanges(working context.Context) bool {
	return wait.PollUntilContextCancel(working, time.Second, true, func(context.Context) (bool, error) {
		return len(s.Ranges().Pods) > 0, nil
	}) == nil
}

// Ranges returns the ranges in the cached ClusterInfo named local. They are empty until it is cached.
func (s *Sources) Ranges() netmap.Ranges {
	// A lister fails only if the object is not cached.
	info, _ := s.infos.Get(v1alpha1.ClusterInfoName)
	return netmap.RangesOf(info)
}

// Removed reports whether the agent's workload was deleted, so that the agent will not be started again and must
// clean up. As SIGTERM may arrive before the watch event, Removed also sends up to four LIST requests. The
// response Forbidden means deleted, as the agent's role is deleted together with its workload. So does Unauthorized
// as the last response: the token of a pod with a grace period is valid until the pod ends, unless its ServiceAccount
// is deleted. As the first response it can also mean that the pod was deleted without a grace period, and replaced.
// If the last request fails for another reason, Removed returns false.
func (s *Sources) Removed() bool {
	if !s.seen.Load() {
		return false
	}
	exists := true
	err := retry.OnError(removalBackoff, func(err error) bool { return !apierrors.IsForbidden(err) }, func() (err error) {
		if s.removed.Load() {
			exists = false
			return nil
		}
		exists, err = s.workloadExists()
		return err
	})
	switch {
	case err == nil:
		return !exists
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), s.removed.Load():
		return true
	}
	klog.Background().Error(err, "Could not determine whether the agent's workload was deleted, leaving the node as it is")
	return false
}

// workloadExists reports whether the agent's workload exists without a deletion timestamp, according to the API
// server. It fails if the request does.
func (s *Sources) workloadExists() (exists bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), removalTimeout)
	defer cancel()
	var options metav1.ListOptions
	byName(s.workload)(&options)
	list, err := s.list(ctx, options)
	if err != nil {
		return false, err
	}
	err = meta.EachListItem(list, func(workload runtime.Object) error {
		exists = exists || !isDeleting(workload)
		return nil
	})
	return exists, err
}

func factory(
	kube kubernetes.Interface,
	namespace string,
	tweak func(*metav1.ListOptions),
) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(trim),
		informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak))
}

func byName(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// isDeleting reports whether an object has a deletion timestamp.
func isDeleting(object any) bool {
	accessor, err := meta.Accessor(object)
	return err == nil && accessor.GetDeletionTimestamp() != nil
}

// onChange returns a handler that calls changed when an object is added or deleted, and when it is updated and same
// returns false for its old and its new version.
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
	return equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) &&
		slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs)
}

// nodeOf returns the node of a pod; empty if the pod is unscheduled or terminated.
func nodeOf(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	return pod.Spec.NodeName
}

// trim drops the fields that no agent reads, to save memory.
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
