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

// takenRetry is the time between two reads of a namespace that is not of the peering.
const takenRetry = time.Minute

// podSecurityEnforce is the label with the pod security standard of a namespace.
const podSecurityEnforce = "pod-security.kubernetes.io/enforce"

// namespaceOf returns the name and the role of the namespace of a direction.
func namespaceOf(direction Aspect, foreignCluster string) (name, role string) {
	if direction == Outgoing {
		return naming.PeerNamespace(foreignCluster), v1alpha1.RolePeer
	}
	return naming.TenantNamespace(foreignCluster), v1alpha1.RoleTenant
}

// FindNamespace returns the peer namespace (outgoing) or the tenant namespace (incoming) of
// a foreign cluster; nil if there is none, or one that is not of the peering.
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

// EnsureNamespace creates the peer namespace (outgoing) or the tenant namespace (incoming)
// of a foreign cluster, unless there is one. It waits while a namespace of that name is not
// of the peering, or is being deleted.
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
			"Namespace %s exists and is not of this peering: delete it, or name the ForeignCluster differently.", name)
		return WaitAtMost(takenRetry), nil
	case namespace.DeletionTimestamp != nil:
		direction.Set(fc, v1alpha1.PeeringPending, ReasonNamespaceTerminating,
			"Namespace %s of an earlier peering is still being deleted.", name)
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
			// Pods in it, also those of an intruder, have no privileges on their node.
			podSecurityEnforce: "restricted",
		},
	}}
}

// RoleBinding returns the binding, in a peer or tenant namespace, of the ClusterRole of the
// same name.
func RoleBinding(namespace, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: kit.Managed(namespace, role),
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

// EnsureRoleBindings creates or updates RoleBindings, and deletes those without subjects.
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
