// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// reflectionBinding is the name of the RoleBinding in an offloaded namespace, and of its ClusterRole, that allows
// virtual kubelets to read the objects which they reflect.
const reflectionBinding = "federation-reflection"

// bindReflection ensures that the RoleBinding in a namespace has exactly the virtual kubelets of the providers to which
// the namespace is offloaded.
func (r *Reconciler) bindReflection(ctx context.Context, namespace string, states []state) error {
	subjects, err := r.virtualKubelets(ctx, states)
	if err != nil {
		return err
	}
	if len(subjects) == 0 {
		return r.unbindReflection(ctx, namespace)
	}
	return kit.EnsureRoleBinding(ctx, r.bindings, r.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: reflectionBinding, Namespace: namespace,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reflectionBinding},
		Subjects: subjects,
	})
}

// virtualKubelets returns the ServiceAccounts of the virtual kubelets of all providers that are selected or have a
// remote namespace.
func (r *Reconciler) virtualKubelets(ctx context.Context, states []state) ([]rbacv1.Subject, error) {
	var subjects []rbacv1.Subject
	for _, s := range states {
		if !s.selected && !s.requested {
			continue
		}
		namespace := naming.PeerNamespace(s.cluster)
		var virtualNodes v1alpha1.VirtualNodeList
		if err := r.Client.List(
			ctx, &virtualNodes, client.InNamespace(namespace), client.UnsafeDisableDeepCopy,
		); err != nil {
			return nil, fmt.Errorf("listing the virtual nodes of %s: %w", s.cluster, err)
		}
		for i := range virtualNodes.Items {
			subjects = append(subjects, rbacv1.Subject{
				Kind: rbacv1.ServiceAccountKind, Namespace: namespace,
				Name: naming.VirtualKubelet(virtualNodes.Items[i].Name),
			})
		}
	}
	slices.SortFunc(subjects, func(a, b rbacv1.Subject) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return subjects, nil
}

// unbindReflection deletes the RoleBinding of virtual kubelets in a namespace, if it exists.
func (r *Reconciler) unbindReflection(ctx context.Context, namespace string) error {
	current := &rbacv1.RoleBinding{}
	if err := r.bindings.Get(
		ctx, client.ObjectKey{Namespace: namespace, Name: reflectionBinding}, current,
	); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kit.Delete(ctx, r.Client, current)
}
