// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// ReadersName is the name of the controller ReaderReconciler in --controllers, logs and metrics.
const ReadersName = "address-readers"

// readersBinding is the name of the RoleBinding in the installation namespace that permits virtual kubelets
// to read AddressMappings there. The chart installs it without subjects, and the Role with the same name.
const readersBinding = "federation-addresses"

// ReaderReconciler permits virtual kubelets to read AddressMappings.
type ReaderReconciler struct {
	// Client reads the cache of the manager.
	Client client.Client
	// Namespace is the namespace of the installation.
	Namespace string

	// bindings reads a cache of the RoleBinding.
	bindings client.Reader
}

// SetupWithManager adds the controller to a manager, with a cache of the one RoleBinding.
func (r *ReaderReconciler) SetupWithManager(manager ctrl.Manager) error {
	bindings, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&rbacv1.RoleBinding{}: {Namespaces: map[string]cache.Config{r.Namespace: {
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, readersBinding),
		}}},
	})
	if err != nil {
		return err
	}
	r.bindings = bindings
	binding := handler.EnqueueRequestsFromMapFunc(r.toBinding)
	return ctrl.NewControllerManagedBy(manager).Named(ReadersName).
		Watches(&v1alpha1.VirtualNode{}, binding, builder.WithPredicates(kit.CreatedOrDeleted())).
		WatchesRawSource(source.Kind[client.Object](bindings, &rbacv1.RoleBinding{}, binding)).
		WithOptions(kit.Options(1)).
		Complete(r)
}

func (r *ReaderReconciler) toBinding(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{kit.Request(r.Namespace, readersBinding)}
}

// Reconcile sets the virtual kubelets of all virtual nodes as the only subjects of the RoleBinding. It does
// nothing if the RoleBinding does not exist, because an upgrade of the chart will create it.
func (r *ReaderReconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	binding := &rbacv1.RoleBinding{}
	if err := r.bindings.Get(ctx, request.NamespacedName, binding); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var nodes v1alpha1.VirtualNodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing virtual nodes: %w", err)
	}
	subjects := subjectsOf(nodes.Items)
	if slices.Equal(binding.Subjects, subjects) {
		return ctrl.Result{}, nil
	}
	binding.Subjects = subjects
	// RBAC allows update, and not patch.
	if err := client.IgnoreNotFound(r.Client.Update(ctx, binding)); err != nil {
		return kit.Result(0, fmt.Errorf("permitting virtual kubelets to read address mappings: %w", err))
	}
	return ctrl.Result{}, nil
}

// subjectsOf returns the ServiceAccounts of the virtual kubelets of virtual nodes, sorted.
func subjectsOf(nodes []v1alpha1.VirtualNode) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for i := range nodes {
		if naming.IsPeerNamespace(nodes[i].Namespace) {
			subjects = append(subjects, rbacv1.Subject{
				Kind: rbacv1.ServiceAccountKind, Namespace: nodes[i].Namespace, Name: naming.VirtualKubelet(nodes[i].Name),
			})
		}
	}
	slices.SortFunc(subjects, func(a, b rbacv1.Subject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return subjects
}
