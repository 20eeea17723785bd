// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

const (
	// bindingName is the name of the RoleBinding in an offloaded namespace with exports, and of its
	// ClusterRole, which permits the controller to write ServiceImports and EndpointSlices there. In remote
	// namespaces, another RoleBinding permits that.
	bindingName = "federation-export-manager"
	// bindingDelay is the time that the API server's authorizer may need to observe a new RoleBinding.
	bindingDelay = 500 * time.Millisecond
)

// bind ensures the RoleBinding in a namespace. If it was just created, it returns the time after which to
// reconcile again; otherwise zero.
func (r *Reconciler) bind(ctx context.Context, namespace string) (time.Duration, error) {
	current := &rbacv1.RoleBinding{}
	err := r.bindings.Get(ctx, types.NamespacedName{Namespace: namespace, Name: bindingName}, current)
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	err = r.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: bindingName,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bindingName},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.Account.Namespace, Name: r.Account.Name}},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("creating role binding %s/%s: %w", namespace, bindingName, err)
	}
	return bindingDelay, nil
}

// unbind deletes the RoleBinding in a namespace, if it exists.
func (r *Reconciler) unbind(ctx context.Context, namespace string) error {
	current := &rbacv1.RoleBinding{}
	if err := r.bindings.Get(ctx, types.NamespacedName{Namespace: namespace, Name: bindingName}, current); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kit.Delete(ctx, r.Client, current)
}
