// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/kit"
)

// accept sets the condition Accepted of an IdentityRequest once the tenant namespace exists and has the
// RoleBindings of the new identity. Only then is the certificate signed, or the ServiceAccount created.
// Each renewal is accepted again.
func (r *Reconciler) accept(ctx context.Context, request *v1alpha1.IdentityRequest, fc *v1alpha1.ForeignCluster) error {
	name := naming.TenantNamespace(fc.Name)
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !kit.IncomingEnabled(fc) || !placement.NamespaceBelongs(namespace, fc.Name, v1alpha1.RoleTenant) ||
		namespace.DeletionTimestamp != nil {
		return nil
	}
	accepted := request.DeepCopy()
	accepted.Status.TenantNamespace = name
	accepted.Status.ClusterID = r.ClusterID
	var ready bool
	var err error
	if r.Mode.ByToken(request) {
		ready, err = r.account(ctx, request, name)
		accepted.Status.ServiceAccountName = naming.TenantAccount
		identity.SetCondition(accepted, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount,
			"The tenant namespace is ready, and has the ServiceAccount of the consumer.")
	} else {
		uid, _ := naming.InvitationOfAccount(request.Name)
		ready, err = r.bound(ctx, name, naming.TenantRole, rbacv1.UserKind, string(uid))
		identity.SetCondition(accepted, v1alpha1.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted,
			"The tenant namespace is ready.")
	}
	if err != nil || !ready {
		return err
	}
	_, err = kit.Commit(ctx, r.Client, request, accepted)
	return err
}

// account creates the ServiceAccount of a consumer that gets tokens instead of a certificate. It reports
// false, and creates nothing, until the RoleBindings exist that grant the ServiceAccount the tenant role
// and permit the holder of the invitation to request its tokens.
func (r *Reconciler) account(ctx context.Context, request *v1alpha1.IdentityRequest, namespace string) (bool, error) {
	for _, needed := range []struct{ role, account string }{
		{naming.TenantRole, naming.TenantAccount}, {naming.TenantTokenRole, request.Name},
	} {
		bound, err := r.bound(ctx, namespace, needed.role, rbacv1.ServiceAccountKind, needed.account)
		if err != nil || !bound {
			return false, err
		}
	}
	if request.Status.ServiceAccountName != "" {
		return true, nil
	}
	err := r.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: naming.TenantAccount,
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
	}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("creating the ServiceAccount of the consumer in namespace %s: %w", namespace, err)
	}
	return true, nil
}

// bound reports whether a RoleBinding exists and has a subject.
func (r *Reconciler) bound(ctx context.Context, namespace, name, kind, subject string) (bool, error) {
	var binding rbacv1.RoleBinding
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &binding); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	named := func(s rbacv1.Subject) bool { return s.Kind == kind && s.Name == subject }
	return slices.ContainsFunc(binding.Subjects, named), nil
}
