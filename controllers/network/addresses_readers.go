// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"

	"liqo.io/federation/apiserver/naming"
)

// readersBinding is the RoleBinding in the installation namespace that lets
// virtual kubelets read AddressMappings there. It is installed with the role of
// that name, and with nobody in it.
const readersBinding = "federation-addresses"

// BindingInformers are the options of informers that see that RoleBinding, and
// no other one.
func BindingInformers(namespace string) []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", readersBinding).String()
		}),
	}
}

// bindReaders has the virtual kubelets of all virtual nodes read AddressMappings,
// and nobody else.
func (a *podAddresses) bindReaders(ctx context.Context) error {
	binding, err := a.bindings.Get(readersBinding)
	if apierrors.IsNotFound(err) {
		// It comes with an upgrade, and then is an event.
		return nil
	}
	if err != nil {
		return err
	}
	nodes, err := a.virtualNodes.List(everything)
	if err != nil {
		return err
	}
	var subjects []rbacv1.Subject
	for _, node := range nodes {
		if naming.IsPeerNamespace(node.Namespace) {
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: node.Namespace, Name: naming.VirtualKubelet(node.Name)})
		}
	}
	slices.SortFunc(subjects, func(a, b rbacv1.Subject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if slices.Equal(binding.Subjects, subjects) {
		return nil
	}
	changed := binding.DeepCopy()
	changed.Subjects = subjects
	if _, err := a.Kube.RbacV1().RoleBindings(a.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("let virtual kubelets read AddressMappings: %w", err)
	}
	return nil
}
