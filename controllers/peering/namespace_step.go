// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
)

// takenRetry is how long a namespace that belongs to somebody else is left
// alone before it is looked at again.
const takenRetry = time.Minute

// podSecurityEnforce keeps pods of ours, and of whoever gets in, harmless.
const podSecurityEnforce = "pod-security.kubernetes.io/enforce"

// namespaceStep makes the namespace of one direction of a peering and the
// role binding in it.
type namespaceStep struct {
	aspect aspect
	// role is the value of the label that tells what the namespace is for.
	role   string
	name   func(foreignCluster string) string
	status func(*v1alpha1.ForeignClusterStatus) *string
	// bindings are the role bindings in it; one without subjects is removed.
	bindings func(fc *v1alpha1.ForeignCluster) ([]*rbacv1.RoleBinding, error)

	getNamespace    func(name string) (*corev1.Namespace, error)
	createNamespace func(ctx context.Context, namespace *corev1.Namespace) error
	getBinding      func(namespace, name string) (*rbacv1.RoleBinding, error)
	createBinding   func(ctx context.Context, binding *rbacv1.RoleBinding) error
	updateBinding   func(ctx context.Context, binding *rbacv1.RoleBinding) error
	deleteBinding   func(ctx context.Context, namespace, name string) error
}

func (s *namespaceStep) reconcile(ctx context.Context, p *pass) (outcome, error) {
	name := s.name(p.fc.Name)
	namespace, err := s.getNamespace(name)
	switch {
	case apierrors.IsNotFound(err):
		if err := s.createNamespace(ctx, s.newNamespace(p.fc)); err != nil {
			return goOn, fmt.Errorf("create namespace %s: %w", name, err)
		}
	case err != nil:
		return goOn, err
	case !belongsTo(namespace, p.fc.Name, s.role):
		s.aspect.set(p.fc, v1alpha1.PeeringError, ReasonNamespaceTaken,
			"Namespace %s is there already and is not of this peering: delete it, or name the ForeignCluster differently.", name)
		return waitAtMost(takenRetry), nil
	case namespace.DeletionTimestamp != nil:
		s.aspect.set(p.fc, v1alpha1.PeeringPending, ReasonNamespaceTerminating,
			"Namespace %s of an earlier peering is still being deleted.", name)
		return wait, nil
	}
	*s.status(&p.fc.Status) = name
	bindings, err := s.bindings(p.fc)
	for _, wanted := range bindings {
		if err == nil {
			err = s.bind(ctx, p.fc, name, wanted)
		}
	}
	return goOn, err
}

func (s *namespaceStep) bind(ctx context.Context, fc *v1alpha1.ForeignCluster, namespace string, wanted *rbacv1.RoleBinding) error {
	wanted.Namespace = namespace
	wanted.Labels = map[string]string{
		v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
		v1alpha1.LabelForeignCluster: fc.Name,
	}
	found, err := s.getBinding(namespace, wanted.Name)
	switch {
	case apierrors.IsNotFound(err) && len(wanted.Subjects) == 0:
		return nil
	case apierrors.IsNotFound(err):
		err = s.createBinding(ctx, wanted)
	case err != nil:
		return err
	case len(wanted.Subjects) == 0:
		err = ignoreNotFound(s.deleteBinding(ctx, namespace, wanted.Name))
	case !equality.Semantic.DeepEqual(found.Subjects, wanted.Subjects):
		changed := found.DeepCopy()
		changed.Subjects = wanted.Subjects
		err = s.updateBinding(ctx, changed)
	}
	if err != nil {
		return fmt.Errorf("bind role %s in namespace %s: %w", wanted.RoleRef.Name, namespace, err)
	}
	return nil
}

func (s *namespaceStep) newNamespace(fc *v1alpha1.ForeignCluster) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.name(fc.Name),
		Labels: map[string]string{
			v1alpha1.LabelForeignCluster: fc.Name,
			v1alpha1.LabelRole:           s.role,
			v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
			podSecurityEnforce:           "restricted",
		},
	}}
}

func belongsTo(namespace *corev1.Namespace, foreignCluster, role string) bool {
	return placement.NamespaceBelongs(namespace, foreignCluster, role)
}
