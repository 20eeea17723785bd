// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
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
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/clusterinfo"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "remote-namespace"

// workers is the number of consumers whose remote namespaces are reconciled in parallel.
const workers = 2

// Names of RoleBindings, and of the ClusterRoles that they bind.
const (
	// tenantBinding is in each tenant namespace. Its subjects are the identities of the consumer.
	tenantBinding = "federation-tenant"
	// consumerBinding is in each remote namespace, and has the same subjects.
	consumerBinding = "federation-remote-namespace"
	// managerBinding is in each remote namespace, and has the ServiceAccount of the controllers.
	managerBinding = "federation-remote-namespace-manager"
)

// Reconciler creates and deletes the remote namespaces that consumers request in the entries of their
// NamespaceMaps.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Events receives events of NamespaceMaps.
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Reserved are the namespaces of this installation, which are never remote namespaces.
	Reserved []string
	// Names and ExternalNames are patterns of the names that consumers may select for remote namespaces and Services, and
	// Objects are limits of the number of objects; see package trust. Reflected are the kinds, in addition to the built-in
	// ones, that consumers may reflect.
	Names, ExternalNames []string
	Objects              corev1.ResourceList
	Reflected            []metav1.GroupVersionResource
	// MaxObjectBytes is the maximum size of an object of a consumer; 0 means the default of the trust in the
	// consumer. Pods are the limits for pods, of which those for labels and annotations apply to other objects,
	// too.
	MaxObjectBytes int64
	Pods           trust.PodFlags
	// MaxNamespaces is the maximum number of remote namespaces of each consumer; see trust.MaxRemoteNamespaces.
	MaxNamespaces int32
	// Network has the settings about what pods of consumers reach.
	Network Network
	// Account is the ServiceAccount of the controllers, which may create pods in remote namespaces.
	Account types.NamespacedName

	// bindings maps tenantBinding, consumerBinding and managerBinding to readers of the cached RoleBindings of
	// that name. quotas reads the cached ResourceQuotas of remote namespaces. policies reads the cached
	// NetworkPolicies named policyName, and the TunnelEndpoints. reflected reads the cached NetworkPolicies
	// that consumers reflected. SetupWithManager sets these fields.
	bindings                    map[string]client.Reader
	quotas, policies, reflected client.Reader
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	tenant := handler.EnqueueRequestsFromMapFunc(kit.OfTenantNamespace)
	inside := handler.EnqueueRequestsFromMapFunc(r.requestsInside)
	controller := ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}, builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceMap{}, tenant).
		Watches(&v1alpha1.ResourceOffer{}, tenant, builder.WithPredicates(kit.SpecChanged())).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfNamespace),
			builder.WithPredicates(namespaceChanged())).
		// ShadowPods are only cached; their changes enqueue nothing.
		Watches(&v1alpha1.ShadowPod{}, handler.Funcs{})
	r.bindings = map[string]client.Reader{}
	for _, name := range []string{tenantBinding, consumerBinding, managerBinding} {
		bindings, err := kit.NewCache(manager, map[client.Object]cache.ByObject{&rbacv1.RoleBinding{}: kit.Named(name)})
		if err != nil {
			return err
		}
		r.bindings[name] = bindings
		controller.WatchesRawSource(source.Kind[client.Object](bindings, &rbacv1.RoleBinding{}, inside))
	}
	quotas, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&corev1.ResourceQuota{}: kit.Named(naming.RemoteNamespaceQuota),
	})
	if err != nil {
		return err
	}
	r.quotas = quotas
	policies, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&networkingv1.NetworkPolicy{}: kit.Named(policyName),
		&v1alpha1.TunnelEndpoint{}:    {Namespaces: map[string]cache.Config{r.Network.Namespace: {}}},
	})
	if err != nil {
		return err
	}
	r.policies = policies
	reflected, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&networkingv1.NetworkPolicy{}: {Label: ofAPeer},
	})
	if err != nil {
		return err
	}
	r.reflected = reflected
	// The ranges of this cluster and of each peer are in the NetworkPolicies of all consumers.
	all := handler.EnqueueRequestsFromMapFunc(kit.RequestsOfAll(r.Client, &v1alpha1.ForeignClusterList{}))
	return controller.
		Watches(&v1alpha1.ClusterInfo{}, all, builder.WithPredicates(clusterinfo.RangesChanged())).
		WatchesRawSource(source.Kind[client.Object](policies, &v1alpha1.TunnelEndpoint{}, all,
			kit.Changed(func(old, current *v1alpha1.TunnelEndpoint) bool {
				return !equality.Semantic.DeepEqual(old.Spec.Remote, current.Spec.Remote)
			}))).
		WatchesRawSource(source.Kind[client.Object](policies, &networkingv1.NetworkPolicy{}, inside)).
		WatchesRawSource(source.Kind[client.Object](reflected, &networkingv1.NetworkPolicy{}, inside)).
		WatchesRawSource(source.Kind[client.Object](quotas, &corev1.ResourceQuota{}, inside, quotaChanged())).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// namespaceChanged selects changes of the fields of namespaces that a reconcile reads.
func namespaceChanged() predicate.Predicate {
	return kit.Changed(func(old, current *corev1.Namespace) bool {
		return !maps.Equal(old.Labels, current.Labels) || !maps.Equal(old.Annotations, current.Annotations) ||
			kit.DeletionBegan(old, current)
	})
}

// quotaChanged selects changes of the limits of a ResourceQuota, and the moment when it comes into force,
// but not changes of its usage, which each pod changes.
func quotaChanged() predicate.Predicate {
	return kit.Changed(func(old, current *corev1.ResourceQuota) bool {
		return !equality.Semantic.DeepEqual(old.Spec, current.Spec) || inForce(old) != inForce(current)
	})
}

// requestsOfNamespace maps a tenant namespace or a remote namespace to its consumer, and any other
// namespace to the consumers that request a remote namespace with its name.
func (r *Reconciler) requestsOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	switch namespace.GetLabels()[v1alpha1.LabelRole] {
	case v1alpha1.RoleTenant, v1alpha1.RoleRemoteNamespace:
		return requestsOfConsumer(namespace)
	}
	var namespaceMaps v1alpha1.NamespaceMapList
	// Listing from a cache fails only before the cache is synced, which enqueues every object anyway.
	_ = r.Client.List(ctx, &namespaceMaps, client.UnsafeDisableDeepCopy)
	var requests []reconcile.Request
	for i := range namespaceMaps.Items {
		namespaceMap := &namespaceMaps.Items[i]
		requested := slices.ContainsFunc(namespaceMap.Spec.Namespaces, func(entry v1alpha1.NamespaceMapping) bool {
			return entry.RemoteName == namespace.GetName()
		})
		if requested && naming.IsTenantNamespace(namespaceMap.Namespace) {
			requests = append(requests, kit.Request("", naming.ForeignClusterOf(namespaceMap.Namespace)))
		}
	}
	return requests
}

// requestsInside maps an object in a tenant namespace or a remote namespace to its consumer.
func (r *Reconciler) requestsInside(ctx context.Context, object client.Object) []reconcile.Request {
	namespace := &corev1.Namespace{}
	if r.Client.Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, namespace) != nil {
		// Reading from a synced cache fails only with NotFound.
		return nil
	}
	return requestsOfConsumer(namespace)
}

func requestsOfConsumer(namespace client.Object) []reconcile.Request {
	foreignCluster := namespace.GetLabels()[v1alpha1.LabelForeignCluster]
	if foreignCluster == "" {
		return nil
	}
	return []reconcile.Request{kit.Request("", foreignCluster)}
}
