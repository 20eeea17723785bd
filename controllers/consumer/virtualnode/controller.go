// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtualnode deploys a virtual kubelet for each VirtualNode, drains and deletes the Node when
// the VirtualNode is deleted, and publishes the ServiceAccounts whose tokens virtual kubelets may
// request.
package virtualnode

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/clusterinfo"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "virtual-node"

const (
	// workers is the number of virtual nodes that are reconciled concurrently.
	workers = 2
	// settle is the delay of a reconcile after a pod changed, so that it handles further changes, too.
	settle = time.Second
)

// Pods caches and watches the pods of single nodes.
type Pods interface {
	// List returns the cached pods of a node, and reports whether all are cached. The first call starts the watch, which
	// ends when ctx is done.
	List(ctx context.Context, node string) (pods []*corev1.Pod, complete bool, err error)
	// Synced reports whether all pods of a node are cached.
	Synced(node string) bool
	// Forget stops the watch of the pods of a node.
	Forget(node string)
	// Listen adds a function that is called with each changed pod.
	Listen(changed func(node string, pod *corev1.Pod))
	// Count sets the counter that is called for each pod on a watched node when it begins or ceases to count; see
	// watches.PodCounter.
	Count(counter watches.PodCounter)
}

// Reconciler deploys the virtual kubelet of each VirtualNode, and writes the status of the VirtualNode.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Pods watches the pods of the virtual nodes.
	Pods Pods
	// Kinds reads which kinds the local API server serves.
	Kinds *kit.ServedKinds
	Clock clock.PassiveClock
	// ClusterID and ClusterName are the ID and the name of the local cluster.
	ClusterID, ClusterName string
	// Namespace is the installation namespace, and Reserved are all namespaces of the
	// installation, which cannot be offloaded.
	Namespace string
	Reserved  []string
	// Networking applies to ForeignClusters that do not set spec.networking.
	Networking v1alpha1.NetworkingMode
	// APIAccess applies to ForeignClusters that do not set spec.apiAccess. Empty applies the default of their trust.
	APIAccess v1alpha1.APIAccess
	// RefusedEndpointCIDRs are CIDRs whose addresses are refused for pods on providers with networking Flat, in
	// addition to the CIDRs in the ClusterInfo.
	RefusedEndpointCIDRs []string
	// VirtualKubelet has the settings of virtual kubelets.
	VirtualKubelet VirtualKubelet

	// managed reads a cache of the ServiceAccounts, ClusterRoleBindings and Deployments that controllers
	// created, and of the TunnelEndpoints in Namespace.
	managed client.Reader
	uses    *accountUses
}

// SetupWithManager adds this controller and the controller accounts to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	ofControllers := cache.ByObject{
		Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
	}
	managed, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&corev1.ServiceAccount{}:     ofControllers,
		&rbacv1.ClusterRoleBinding{}: ofControllers,
		&appsv1.Deployment{}:         ofControllers,
		&v1alpha1.TunnelEndpoint{}:   {Namespaces: map[string]cache.Config{r.Namespace: {}}},
	})
	if err != nil {
		return err
	}
	r.managed = managed
	podsChanged := &kit.Trigger{}
	r.Pods.Listen(func(node string, _ *corev1.Pod) {
		for _, request := range r.ofNodeName(context.Background(), node) {
			podsChanged.AddAfter(request, settle)
		}
	})
	if err := r.setUpAccounts(manager); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		// The oldest virtual node of a cluster determines the reflection policy of the others.
		Watches(&v1alpha1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace)).
		Watches(&v1alpha1.ResourceOffer{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace)).
		Watches(&v1alpha1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofForeignCluster),
			builder.WithPredicates(clusterChanged())).
		Watches(&v1alpha1.ClusterInfo{}, kit.EnqueueAfter(settle, r.ofClusterInfo),
			builder.WithPredicates(clusterinfo.RangesChanged())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode)).
		WatchesRawSource(watch(managed, &v1alpha1.TunnelEndpoint{}, r.ofForeignCluster)).
		WatchesRawSource(watch(managed, &corev1.ServiceAccount{}, ofOwned)).
		WatchesRawSource(watch(managed, &appsv1.Deployment{}, ofOwned)).
		WatchesRawSource(watch(managed, &rbacv1.ClusterRoleBinding{}, r.ofBinding)).
		WatchesRawSource(podsChanged).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// setUpAccounts adds the controller accounts to a manager. If ConsumerAPIServer is empty, the controller uses noUses,
// because no tokens are sent to providers.
func (r *Reconciler) setUpAccounts(manager ctrl.Manager) error {
	firstOrLast := &kit.Trigger{}
	r.uses = newAccountUses(
		r.Clock, r.Pods.Synced, func(namespace string) { firstOrLast.Add(kit.Request("", namespace)) },
	)
	used := r.uses.of
	if r.VirtualKubelet.ConsumerAPIServer != "" {
		r.Pods.Count(r.uses)
	} else {
		used = noUses
	}
	return (&accounts{client: r.Client, reserved: r.Reserved, used: used}).setUp(manager, firstOrLast)
}

// watch returns a source of requests for the objects in a cache.
func watch[T client.Object](from cache.Cache, kind T, requests handler.MapFunc) source.Source {
	return source.Kind(from, kind, handler.TypedEnqueueRequestsFromMapFunc(
		func(ctx context.Context, object T) []reconcile.Request { return requests(ctx, object) }))
}

// clusterChanged selects creations and deletions of ForeignClusters, and updates of the fields that the status or the
// Node of a VirtualNode depends on.
func clusterChanged() predicate.Predicate {
	return kit.Changed(func(old, current *v1alpha1.ForeignCluster) bool {
		return old.Status.Networking != current.Status.Networking || old.Spec.Networking != current.Spec.Networking ||
			old.Spec.Cordoned != current.Spec.Cordoned || old.Spec.APIAccess != current.Spec.APIAccess ||
			old.Spec.Trust != current.Spec.Trust
	})
}

// list returns the cached VirtualNodes that the options select.
func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []v1alpha1.VirtualNode {
	var all v1alpha1.VirtualNodeList
	// Listing from a cache fails only before the cache is synced, which enqueues every object anyway.
	_ = r.Client.List(ctx, &all, append(options, client.UnsafeDisableDeepCopy)...)
	return all.Items
}

func (r *Reconciler) inNamespace(ctx context.Context, namespace string) []reconcile.Request {
	if !naming.IsPeerNamespace(namespace) {
		return nil
	}
	var requests []reconcile.Request
	for _, virtual := range r.list(ctx, client.InNamespace(namespace)) {
		requests = append(requests, kit.Request(virtual.Namespace, virtual.Name))
	}
	return requests
}

// ofNamespace maps an object in a peer namespace to all virtual nodes in it.
func (r *Reconciler) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return r.inNamespace(ctx, object.GetNamespace())
}

// ofForeignCluster maps an object with the name of a ForeignCluster to the VirtualNodes of that cluster.
func (r *Reconciler) ofForeignCluster(ctx context.Context, object client.Object) []reconcile.Request {
	return r.inNamespace(ctx, naming.PeerNamespace(object.GetName()))
}

// ofClusterInfo maps the ClusterInfo of the local cluster to all VirtualNodes.
func (r *Reconciler) ofClusterInfo(ctx context.Context, _ client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, virtual := range r.list(ctx) {
		if naming.IsPeerNamespace(virtual.Namespace) {
			requests = append(requests, kit.Request(virtual.Namespace, virtual.Name))
		}
	}
	return requests
}

// ofNode maps a Node to its virtual node.
func (r *Reconciler) ofNode(ctx context.Context, node client.Object) []reconcile.Request {
	if node.GetLabels()[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode {
		return nil
	}
	return r.ofNodeName(ctx, node.GetName())
}

func (r *Reconciler) ofNodeName(ctx context.Context, name string) []reconcile.Request {
	for _, virtual := range r.list(ctx) {
		if virtual.Spec.NodeName == name {
			return []reconcile.Request{kit.Request(virtual.Namespace, virtual.Name)}
		}
	}
	return nil
}

// ofBinding maps the ClusterRoleBinding of a virtual kubelet to its virtual node.
func (r *Reconciler) ofBinding(ctx context.Context, object client.Object) []reconcile.Request {
	binding := object.(*rbacv1.ClusterRoleBinding)
	if len(binding.Subjects) != 1 {
		return nil
	}
	for _, virtual := range r.list(ctx, client.InNamespace(binding.Subjects[0].Namespace)) {
		if bindingName(&virtual) == binding.Name {
			return []reconcile.Request{kit.Request(virtual.Namespace, virtual.Name)}
		}
	}
	return nil
}

// ofOwned maps an object to the VirtualNode that owns it.
func ofOwned(_ context.Context, object client.Object) []reconcile.Request {
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "VirtualNode" {
		return []reconcile.Request{kit.Request(object.GetNamespace(), owner.Name)}
	}
	return nil
}
