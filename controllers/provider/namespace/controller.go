// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "remote-namespace"

// workers reconcile consumers in parallel.
const workers = 2

// Names of RoleBindings, and of the ClusterRoles that they bind.
const (
	// tenantBinding, in a tenant namespace, names the consumer's user.
	tenantBinding = "federation-tenant"
	// consumerBinding, in a remote namespace, binds the same user there.
	consumerBinding = "federation-remote-namespace"
	// managerBinding, in a remote namespace, binds the account of the controllers there.
	managerBinding = "federation-remote-namespace-manager"
)

// Reconciler keeps the remote namespaces of each consumer in line with its NamespaceMaps.
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
	// Account is the service account of the controllers. In remote namespaces it may create
	// pods.
	Account types.NamespacedName

	// bindings cache the RoleBindings of each name, quotas the ResourceQuotas of remote
	// namespaces. SetupWithManager sets them.
	bindings map[string]client.Reader
	quotas   client.Reader
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
		// Shadow pods are read, and request no pass.
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
	quotas, err := kit.NewCache(manager, map[client.Object]cache.ByObject{&corev1.ResourceQuota{}: kit.Named(quotaName)})
	if err != nil {
		return err
	}
	r.quotas = quotas
	return controller.
		WatchesRawSource(source.Kind[client.Object](quotas, &corev1.ResourceQuota{}, inside, quotaChanged())).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// namespaceChanged selects changes of what a pass reads of a namespace.
func namespaceChanged() predicate.Predicate {
	return kit.Changed(func(old, current *corev1.Namespace) bool {
		return !maps.Equal(old.Labels, current.Labels) || !maps.Equal(old.Annotations, current.Annotations) ||
			kit.DeletionBegan(old, current)
	})
}

// quotaChanged selects changes of the bounds of a quota, and that it comes into force: its
// usage changes with each pod.
func quotaChanged() predicate.Predicate {
	return kit.Changed(func(old, current *corev1.ResourceQuota) bool {
		return !equality.Semantic.DeepEqual(old.Spec, current.Spec) || inForce(old) != inForce(current)
	})
}

// requestsOfNamespace maps a tenant namespace or a remote namespace to its consumer, and any
// other namespace to the consumers that request one of its name.
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
		// A cache fails only with NotFound.
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
