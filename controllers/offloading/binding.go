// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// bind makes a role binding the wanted one. A role cannot be replaced in a
// binding, so one with another role goes first.
func bind(ctx context.Context, kube kubernetes.Interface, bindings rbaclisters.RoleBindingLister, wanted *rbacv1.RoleBinding) error {
	client := kube.RbacV1().RoleBindings(wanted.Namespace)
	current, err := bindings.RoleBindings(wanted.Namespace).Get(wanted.Name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case current.RoleRef != wanted.RoleRef:
		if err := unbind(ctx, kube, current); err != nil {
			return err
		}
	case equality.Semantic.DeepEqual(current.Subjects, wanted.Subjects):
		return nil
	default:
		changed := current.DeepCopy()
		changed.Subjects = wanted.Subjects
		if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update the role binding %s in %s: %w", wanted.Name, wanted.Namespace, err)
		}
		return nil
	}
	if _, err := client.Create(ctx, wanted, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the role binding %s in %s: %w", wanted.Name, wanted.Namespace, err)
	}
	return nil
}

// unbind deletes a role binding, and no other one that has its name by now.
func unbind(ctx context.Context, kube kubernetes.Interface, current *rbacv1.RoleBinding) error {
	err := kube.RbacV1().RoleBindings(current.Namespace).Delete(ctx, current.Name, *metav1.NewPreconditionDeleteOptions(string(current.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the role binding %s in %s: %w", current.Name, current.Namespace, err)
	}
	return nil
}

// named returns informers of objects of one name.
func named(kube kubernetes.Interface, name string) kubeinformers.SharedInformerFactory {
	return kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0,
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
}
