// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// The Pod Security level of a new remote namespace, which the provider's administrator may change.
const (
	labelPodSecurity    = "pod-security.kubernetes.io/enforce"
	podSecurityBaseline = "baseline"
)

// ensure ensures a remote namespace with its ResourceQuota and RoleBindings, and sets the status of its
// entry. The phase stays empty until the quota is in force. An entry that was ready stays ready if a
// later change fails, because the consumer uses the namespace already.
func (r *Reconciler) ensure(ctx context.Context, t tenant, e *entry) error {
	err := r.ensureNamespace(ctx, t, e)
	ready := false
	if err == nil && e.status.Phase == "" {
		ready, err = r.configure(ctx, t, e.RemoteName)
		ready = ready || e.wasReady()
	}
	switch {
	case ready:
		e.status.Phase = v1alpha1.NamespaceMappingReady
	case err != nil:
		e.refuse(v1alpha1.NamespaceMappingFailed, "the provider failed to create the namespace, and retries")
	}
	return err
}

func (r *Reconciler) ensureNamespace(ctx context.Context, t tenant, e *entry) error {
	if r.namespace(ctx, e.RemoteName) != nil {
		return nil
	}
	err := r.Client.Create(ctx, r.remoteNamespace(t, e.NamespaceMapping))
	if apierrors.IsAlreadyExists(err) {
		// The namespace is not in the cache yet.
		found := &corev1.Namespace{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: e.RemoteName}, found); err != nil {
			return fmt.Errorf("reading namespace %s: %w", e.RemoteName, err)
		}
		e.check(t, found)
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating remote namespace %s: %w", e.RemoteName, err)
	}
	return nil
}

func (r *Reconciler) remoteNamespace(t tenant, mapping v1alpha1.NamespaceMapping) *corev1.Namespace {
	annotations := map[string]string{v1alpha1.AnnotationOriginNamespace: mapping.Name}
	for key, value := range t.classes {
		if value != nil {
			annotations[key] = *value
		}
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: mapping.RemoteName,
		Labels: map[string]string{
			v1alpha1.LabelRole:           v1alpha1.RoleRemoteNamespace,
			v1alpha1.LabelForeignCluster: t.foreignCluster,
			v1alpha1.LabelOrigin:         t.clusterID,
			v1alpha1.LabelDestination:    r.ClusterID,
			v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
			labelPodSecurity:             podSecurityBaseline,
		},
		Annotations: annotations,
	}}
}

// configure sets the annotations of classesOf on a remote namespace, binds the role of the controllers, isolates the
// pods, sets the quota, and binds the role of the consumer last, so that the consumer creates nothing before. It
// reports whether the quota is in force.
func (r *Reconciler) configure(ctx context.Context, t tenant, namespace string) (bool, error) {
	if err := r.ensureClasses(ctx, t, namespace); err != nil {
		return false, err
	}
	users, err := r.usersOf(ctx, t)
	if err != nil {
		return false, err
	}
	controllers := []rbacv1.Subject{{
		Kind: rbacv1.ServiceAccountKind, Name: r.Account.Name, Namespace: r.Account.Namespace,
	}}
	if err := r.ensureBinding(ctx, t, namespace, managerBinding, controllers); err != nil {
		return false, err
	}
	if err := r.ensureIsolation(ctx, t, namespace); err != nil {
		return false, err
	}
	bounded, err := r.ensureQuota(ctx, t.foreignCluster, namespace,
		func(current corev1.ResourceList) corev1.ResourceList {
			return boundOf(current, t.offered, t.used, t.objects)
		})
	if err != nil {
		return false, err
	}
	return bounded, r.ensureBinding(ctx, t, namespace, consumerBinding, users)
}

// ensureBinding ensures a RoleBinding in a remote namespace that has the name of the ClusterRole that it
// binds.
func (r *Reconciler) ensureBinding(ctx context.Context, t tenant, namespace, name string,
	subjects []rbacv1.Subject,
) error {
	return kit.EnsureRoleBinding(ctx, r.bindings[name], r.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: namespace,
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: t.foreignCluster,
			},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: subjects,
	})
}

// usersOf returns the identities of a consumer, from the RoleBinding tenantBinding in its tenant
// namespace. It fails if the RoleBinding has no subjects.
func (r *Reconciler) usersOf(ctx context.Context, t tenant) ([]rbacv1.Subject, error) {
	binding := &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: t.namespace, Name: tenantBinding}
	if err := r.bindings[tenantBinding].Get(ctx, key, binding); err != nil {
		return nil, fmt.Errorf("reading the identities of consumer %s: %w", t.foreignCluster, err)
	}
	users := slices.DeleteFunc(slices.Clone(binding.Subjects), func(subject rbacv1.Subject) bool {
		return subject.Kind != rbacv1.UserKind &&
			(subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != t.namespace)
	})
	if len(users) == 0 {
		return nil, fmt.Errorf("RoleBinding %s has no subjects", key)
	}
	return users, nil
}
