// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// binding is the RoleBinding in an offloaded namespace with exports that lets
	// the controller write imports and EndpointSlices there. The cluster role has
	// the same name. In twins another one does.
	binding = "federation-export-manager"
	// bindingDelay is how long the authorizer may take to learn of it.
	bindingDelay = 500 * time.Millisecond
)

// bind lets the controller write in a namespace. The duration says when to look
// again, if it could not yet.
func (c *Controller) bind(ctx context.Context, namespace string) (time.Duration, error) {
	if _, err := c.bindings.RoleBindings(namespace).Get(binding); !apierrors.IsNotFound(err) {
		return 0, err
	}
	_, err := c.kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binding, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: binding},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.own.AccountNamespace, Name: c.own.Account}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("create the role binding %s in %s: %w", binding, namespace, err)
	}
	return bindingDelay, nil
}

// unbind ends that.
func (c *Controller) unbind(ctx context.Context, namespace string) error {
	current, err := c.bindings.RoleBindings(namespace).Get(binding)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.kube.RbacV1().RoleBindings(namespace).Delete(ctx, binding, *metav1.NewPreconditionDeleteOptions(string(current.UID)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the role binding %s in %s: %w", binding, namespace, err)
	}
	return nil
}
