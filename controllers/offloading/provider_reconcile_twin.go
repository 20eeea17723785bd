// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// The Pod Security level of a twin when it is made. The provider may change
// it afterwards.
const (
	labelPodSecurity    = "pod-security.kubernetes.io/enforce"
	podSecurityBaseline = "baseline"
)

// ensureTwin makes the namespace with its bounds and the consumer's rights in
// it, and answers the wish. A wish that failed is answered, and the error has
// it tried again; one whose bounds are not in force yet waits for its first
// answer. Who was told that its twin is ready uses it, also when what changes in
// it takes a second try.
func (p *Provider) ensureTwin(ctx context.Context, t tenant, w *wish) error {
	err := p.ensureNamespace(ctx, t, w)
	ready := false
	if err == nil && w.answer.Phase == "" {
		ready, err = p.furnish(ctx, t, w.RemoteName)
		ready = ready || w.wasReady()
	}
	switch {
	case ready:
		w.answer.Phase = v1alpha1.NamespaceMappingReady
	case err != nil:
		w.refuse(v1alpha1.NamespaceMappingFailed, "the provider could not make the namespace yet, and tries again")
	}
	return err
}

// wasReady tells whether the consumer was told already that its twin is there.
func (w *wish) wasReady() bool {
	return slices.ContainsFunc(w.namespaceMap.Status.Namespaces, func(answer v1alpha1.NamespaceMappingStatus) bool {
		return answer.Name == w.Name && answer.RemoteName == w.RemoteName && answer.Phase == v1alpha1.NamespaceMappingReady
	})
}

func (p *Provider) ensureNamespace(ctx context.Context, t tenant, w *wish) error {
	if _, err := p.namespaces.Get(w.RemoteName); err == nil {
		return nil
	}
	_, err := p.kube.CoreV1().Namespaces().Create(ctx, p.twin(t, w.NamespaceMapping), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// Somebody was faster than our cache.
		namespace, err := p.kube.CoreV1().Namespaces().Get(ctx, w.RemoteName, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get namespace %s: %w", w.RemoteName, err)
		}
		p.judge(t, w, namespace)
		return nil
	}
	if err != nil {
		return fmt.Errorf("create twin namespace %s: %w", w.RemoteName, err)
	}
	return nil
}

func (p *Provider) twin(t tenant, entry v1alpha1.NamespaceMapping) *corev1.Namespace {
	annotations := map[string]string{v1alpha1.AnnotationOriginNamespace: entry.Name}
	for key, value := range t.classes {
		if value != nil {
			annotations[key] = *value
		}
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: entry.RemoteName,
		Labels: map[string]string{
			v1alpha1.LabelRole:           v1alpha1.RoleTwin,
			v1alpha1.LabelForeignCluster: t.foreignCluster,
			v1alpha1.LabelOrigin:         t.clusterID,
			v1alpha1.LabelDestination:    p.own.ClusterID,
			v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
			labelPodSecurity:             podSecurityBaseline,
		},
		Annotations: annotations,
	}}
}

// furnish says which classes count in a twin, gives the controllers their rights
// in it, bounds it, and lets the
// user in that the tenant's own binding names. It tells whether the bound is
// in force.
func (p *Provider) furnish(ctx context.Context, t tenant, twin string) (bool, error) {
	if err := p.ensureClasses(ctx, t, twin); err != nil {
		return false, err
	}
	users, err := p.users(t)
	if err != nil {
		return false, err
	}
	controllers := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: p.own.Account, Namespace: p.own.AccountNamespace}}
	if err := p.ensureBinding(ctx, t, twin, managerBinding, controllers); err != nil {
		return false, err
	}
	bounded, err := p.ensureQuota(ctx, t.foreignCluster, twin, t.offered, t.runs)
	if err != nil {
		return false, err
	}
	return bounded, p.ensureBinding(ctx, t, twin, twinBinding, users)
}

// ensureBinding binds the cluster role of the same name in a twin.
func (p *Provider) ensureBinding(ctx context.Context, t tenant, twin, name string, subjects []rbacv1.Subject) error {
	return bind(ctx, p.kube, p.bindings[name], &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: twin,
			Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: t.foreignCluster},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: subjects,
	})
}

// users are those that the tenant's binding was made for.
func (p *Provider) users(t tenant) ([]rbacv1.Subject, error) {
	binding, err := p.bindings[tenantBinding].RoleBindings(t.namespace).Get(tenantBinding)
	if err != nil {
		return nil, fmt.Errorf("find out who the consumer is: %w", err)
	}
	users := slices.DeleteFunc(slices.Clone(binding.Subjects), func(subject rbacv1.Subject) bool {
		return subject.Kind != rbacv1.UserKind && (subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != t.namespace)
	})
	if len(users) == 0 {
		return nil, fmt.Errorf("the role binding %s in %s names no user", tenantBinding, t.namespace)
	}
	return users, nil
}
