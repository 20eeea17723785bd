// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"cmp"
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// reflectionBinding is the RoleBinding in an offloaded namespace that lets the
// virtual kubelets of its clusters read what they reflect. The cluster role has
// the same name.
const reflectionBinding = "federation-reflection"

// allowReflection binds the virtual kubelets of exactly those clusters that a
// namespace extends to.
func (c *Consumer) allowReflection(ctx context.Context, namespace string, standings []standing) error {
	subjects, err := c.reflecting(standings)
	if err != nil {
		return err
	}
	if len(subjects) == 0 {
		return c.endReflection(ctx, namespace)
	}
	return bind(ctx, c.kube, c.bindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: reflectionBinding, Namespace: namespace,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reflectionBinding},
		Subjects: subjects,
	})
}

// reflecting are the accounts of the virtual kubelets of those clusters that
// are selected, or have not given the namespace back yet.
func (c *Consumer) reflecting(standings []standing) ([]rbacv1.Subject, error) {
	var subjects []rbacv1.Subject
	for _, s := range standings {
		if !s.selected && !s.asked {
			continue
		}
		namespace := naming.PeerNamespace(s.cluster)
		virtualNodes, err := c.virtualNodes.VirtualNodes(namespace).List(everything)
		if err != nil {
			return nil, err
		}
		for _, virtualNode := range virtualNodes {
			subjects = append(subjects, rbacv1.Subject{
				Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: naming.VirtualKubelet(virtualNode.Name),
			})
		}
	}
	slices.SortFunc(subjects, func(a, b rbacv1.Subject) int {
		return cmp.Or(compare(a.Namespace, b.Namespace), compare(a.Name, b.Name))
	})
	return subjects, nil
}

// endReflection removes the binding from a namespace, if it has one of ours.
func (c *Consumer) endReflection(ctx context.Context, namespace string) error {
	current, err := c.bindings.RoleBindings(namespace).Get(reflectionBinding)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return unbind(ctx, c.kube, current)
}
