// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/kit"
)

// takenRetry is the time between two reads of a namespace that has the name of a peer or tenant
// namespace, but does not belong to the peering.
const takenRetry = time.Minute

// podSecurityEnforce is the label of a namespace that enforces a Pod Security Standard.
const podSecurityEnforce = "pod-security.kubernetes.io/enforce"

// namespaceOf returns the name, and the value of the role label, of the peer namespace (outgoing) or
// the tenant namespace (incoming) of a foreign cluster.
func namespaceOf(direction Aspect, foreignCluster string) (name, role string) {
	if direction == Outgoing {
		return naming.PeerNamespace(foreignCluster), v1alpha1.RolePeer
	}
	return naming.TenantNamespace(foreignCluster), v1alpha1.RoleTenant
}

// FindNamespace returns the peer namespace (outgoing) or the tenant namespace (incoming) of a
// foreign cluster. It returns nil if the namespace does not exist or lacks the labels of the peering.
func FindNamespace(
	ctx context.Context, reader client.Reader, foreignCluster string, direction Aspect,
) (*corev1.Namespace, error) {
	name, role := namespaceOf(direction, foreignCluster)
	namespace := &corev1.Namespace{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) || err == nil && !placement.NamespaceBelongs(namespace, foreignCluster, role) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return namespace, nil
}

// EnsureNamespace ensures the peer namespace (outgoing) or the tenant namespace (incoming) of a
// foreign cluster. While a namespace of that name lacks the labels of the peering or is being
// deleted, it sets the condition of the direction, and its outcome stops the steps.
func EnsureNamespace(ctx context.Context, c client.Client, p *Pass, direction Aspect) (Outcome, error) {
	fc := p.ForeignCluster
	name, role := namespaceOf(direction, fc.Name)
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		if err := c.Create(ctx, newNamespace(name, fc.Name, role)); err != nil {
			return Continue, fmt.Errorf("creating namespace %s: %w", name, err)
		}
	case err != nil:
		return Continue, fmt.Errorf("reading namespace %s: %w", name, err)
	case !placement.NamespaceBelongs(namespace, fc.Name, role):
		direction.Set(fc, v1alpha1.PeeringError, ReasonNamespaceTaken,
			"Namespace %s exists, but does not belong to this peering: delete it, or create the ForeignCluster with "+
				"another name.", name)
		return WaitAtMost(takenRetry), nil
	case namespace.DeletionTimestamp != nil:
		direction.Set(fc, v1alpha1.PeeringPending, ReasonNamespaceTerminating,
			"Namespace %s of a previous peering is still being deleted.", name)
		return Wait, nil
	}
	return Continue, nil
}

func newNamespace(name, foreignCluster, role string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			v1alpha1.LabelForeignCluster: foreignCluster,
			v1alpha1.LabelRole:           role,
			v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
			// A pod in this namespace has no privileges on its node, even if an intruder created it.
			podSecurityEnforce: "restricted",
		},
	}}
}

// RoleBinding returns a RoleBinding in a peer or tenant namespace. It has the name of the ClusterRole
// that it binds.
func RoleBinding(namespace, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: kit.Managed(namespace, role),
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

// EnsureRoleBindings creates or updates each RoleBinding, or deletes it if it has no subjects.
func EnsureRoleBindings(ctx context.Context, c client.Client, bindings ...*rbacv1.RoleBinding) error {
	for _, binding := range bindings {
		if err := ensureRoleBinding(ctx, c, binding); err != nil {
			return err
		}
	}
	return nil
}

func ensureRoleBinding(ctx context.Context, c client.Client, wanted *rbacv1.RoleBinding) error {
	if len(wanted.Subjects) > 0 {
		return kit.EnsureRoleBinding(ctx, c, c, wanted)
	}
	current := &rbacv1.RoleBinding{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(wanted), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kit.Delete(ctx, c, current)
}
