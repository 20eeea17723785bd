// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

const (
	// accountsName is the name of the controller accounts in logs and metrics.
	accountsName = Name + "-accounts"
	// accountsRetry is the time between two reconciles of a namespace while the pods of a node are not cached yet.
	accountsRetry = time.Second
)

// accounts writes, to an annotation of each offloaded namespace, the ServiceAccounts whose tokens the pods of each
// virtual node need. The admission policy federation-virtual-kubelets-tokens limits virtual kubelets to these.
type accounts struct {
	// client reads the cache of the manager.
	client client.Client
	// used has the contract of accountUses.of.
	used func(node, namespace string) (accounts []string, retryAfter time.Duration, complete bool)
	// reserved are the namespaces of the installation.
	reserved []string
}

func (a *accounts) setUp(manager ctrl.Manager, used *kit.Trigger) error {
	return ctrl.NewControllerManagedBy(manager).Named(accountsName).
		For(&corev1.Namespace{}).
		Watches(&v1alpha1.VirtualNode{},
			handler.EnqueueRequestsFromMapFunc(kit.RequestsOfAll(a.client, &corev1.NamespaceList{})),
			builder.WithPredicates(accessChanged)).
		WatchesRawSource(used).
		WithOptions(kit.Options(1)).
		Complete(a)
}

// accessChanged selects deletions of virtual nodes and updates of their access to the consumer's API server.
var accessChanged = kit.ChangedOrDeleted(func(old, current *v1alpha1.VirtualNode) bool {
	return trust.NodeAPIAccess(old) != trust.NodeAPIAccess(current)
})

// Reconcile writes AnnotationAccounts of one namespace: the ServiceAccounts that its pods use on each virtual node
// whose pods may reach the consumer's API server. It removes the annotation if there are none, or the namespace is
// not offloaded.
func (a *accounts) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(a.reconcile(ctx, request.Name))
}

func (a *accounts) reconcile(ctx context.Context, name string) (time.Duration, error) {
	namespace := &corev1.Namespace{}
	err := a.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	deleted := apierrors.IsNotFound(err)
	if err != nil && !deleted {
		return 0, err
	}
	before := strings.Fields(namespace.Annotations[v1alpha1.AnnotationAccounts])
	// used is also called for namespaces that are not offloaded, because it removes expired ServiceAccounts.
	offloaded := placement.Offloaded(namespace, a.reserved...)
	after, retryAfter, err := a.onVirtualNodes(ctx, name, before, offloaded)
	if err != nil || deleted {
		return retryAfter, err
	}
	if !offloaded {
		after = nil
	}
	if slices.Equal(before, after) || !namespace.DeletionTimestamp.IsZero() {
		return retryAfter, nil
	}
	desired := namespace.DeepCopy()
	if len(after) > 0 {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, v1alpha1.AnnotationAccounts, strings.Join(after, " "))
	} else {
		delete(desired.Annotations, v1alpha1.AnnotationAccounts)
	}
	if _, err := kit.Commit(ctx, a.client, namespace, desired); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("writing the ServiceAccounts in use on virtual nodes to namespace %s: %w", name, err)
	}
	return retryAfter, nil
}

// onVirtualNodes returns an entry of the annotation for each virtual node whose pods may reach the consumer's API
// server and each ServiceAccount in use on it, and the time after which to reconcile again. While the pods of a node
// are not cached yet, its ServiceAccounts stay in the annotation, and the namespace is reconciled again after
// accountsRetry, because no event reports that the cache is synced. They also stay while the access of a node is not in
// its status yet, for example after an upgrade; an update of the VirtualNode then reports the access.
func (a *accounts) onVirtualNodes(
	ctx context.Context, namespace string, before []string, offloaded bool,
) (after []string, retryAfter time.Duration, err error) {
	var nodes v1alpha1.VirtualNodeList
	if err := a.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !naming.IsPeerNamespace(node.Namespace) {
			continue
		}
		accounts, soon, complete := a.used(node.Spec.NodeName, namespace)
		if access := trust.NodeAPIAccess(node); access != v1alpha1.APIAccessDisabled {
			prefix := naming.AccountOnNode(node.Namespace, node.Name, "")
			for _, account := range accounts {
				if access != "" {
					after = append(after, prefix+account)
				}
			}
			for _, entry := range before {
				if (!complete || access == "") && strings.HasPrefix(entry, prefix) {
					after = append(after, entry)
				}
			}
			if !complete && offloaded {
				soon = accountsRetry
			}
		}
		if soon > 0 && (retryAfter == 0 || soon < retryAfter) {
			retryAfter = soon
		}
	}
	slices.Sort(after)
	return after, retryAfter, nil
}
