// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// namespaceKeys leads from what is in a tenant or peer namespace to the
// ForeignCluster that the namespace is named after.
func namespaceKeys(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	if name := naming.ForeignClusterOf(accessor.GetNamespace()); name != "" {
		return []cache.ObjectName{{Name: name}}
	}
	return nil
}

// labelKeys leads from what carries the label to the ForeignCluster it names.
func labelKeys(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil || accessor.GetLabels()[v1alpha1.LabelForeignCluster] == "" {
		return nil
	}
	return []cache.ObjectName{{Name: accessor.GetLabels()[v1alpha1.LabelForeignCluster]}}
}

// ownerKeys leads from an object to the ForeignCluster that controls it.
func ownerKeys(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	if owner := metav1.GetControllerOf(accessor); owner != nil {
		return []cache.ObjectName{{Name: owner.Name}}
	}
	return nil
}

// keysOf lists the keys of the foreign clusters that match.
func keysOf(list func(labels.Selector) ([]*v1alpha1.ForeignCluster, error), matches func(*v1alpha1.ForeignCluster) bool) []cache.ObjectName {
	all, err := list(labels.Everything())
	if err != nil {
		return nil
	}
	var keys []cache.ObjectName
	for _, fc := range all {
		if matches(fc) {
			keys = append(keys, cache.ObjectName{Name: fc.Name})
		}
	}
	return keys
}

func (c *Config) namespaceStep() *namespaceStep {
	return &namespaceStep{
		getNamespace: c.getNamespace,
		createNamespace: func(ctx context.Context, namespace *corev1.Namespace) error {
			_, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, createOptions)
			return err
		},
		getBinding: c.getBinding,
		createBinding: func(ctx context.Context, binding *rbacv1.RoleBinding) error {
			_, err := c.Kube.RbacV1().RoleBindings(binding.Namespace).Create(ctx, binding, createOptions)
			return err
		},
		updateBinding: func(ctx context.Context, binding *rbacv1.RoleBinding) error {
			_, err := c.Kube.RbacV1().RoleBindings(binding.Namespace).Update(ctx, binding, updateOptions)
			return err
		},
		deleteBinding: c.deleteBinding,
	}
}

func (c *Config) deleteBinding(ctx context.Context, namespace, name string) error {
	return c.Kube.RbacV1().RoleBindings(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func (c *Config) getNamespace(name string) (*corev1.Namespace, error) {
	return c.KubeInformers.Core().V1().Namespaces().Lister().Get(name)
}

func (c *Config) deleteNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	return c.Kube.CoreV1().Namespaces().Delete(ctx, namespace.Name, exactly(namespace))
}

func (c *Config) getBinding(namespace, name string) (*rbacv1.RoleBinding, error) {
	return c.ManagedInformers.Rbac().V1().RoleBindings().Lister().RoleBindings(namespace).Get(name)
}
