// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// problem is the reason why no virtual kubelet is deployed or a kind is not reflected.
type problem struct{ reason, message string }

// deploy ensures the ServiceAccount, the ClusterRoleBinding and the Deployment of a virtual kubelet. It returns the
// existing Deployment, or the problem that prevents the deployment; both are nil if the Deployment was just created. fc
// is the ForeignCluster, and found the Node of the virtual node; each is nil if it does not exist.
func (r *Reconciler) deploy(
	ctx context.Context, virtual *v1alpha1.VirtualNode, fc *v1alpha1.ForeignCluster, found *corev1.Node,
) (*appsv1.Deployment, *problem, error) {
	if r.VirtualKubelet.Image == "" {
		message := "The federation-controller-manager was started without --virtual-kubelet-image."
		return nil, &problem{ReasonNoImage, message}, nil
	}
	err := r.managed.Get(ctx, client.ObjectKey{Namespace: virtual.Namespace, Name: kubeletName(virtual)},
		&corev1.ServiceAccount{})
	if apierrors.IsNotFound(err) {
		err = ignoreExisting(r.Client.Create(ctx, newAccount(virtual)))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("creating the ServiceAccount of virtual node %s: %w", virtual.Name, err)
	}
	desired, binding := newBinding(virtual), &rbacv1.ClusterRoleBinding{}
	err = r.managed.Get(ctx, client.ObjectKey{Name: desired.Name}, binding)
	switch {
	case apierrors.IsNotFound(err):
		if err := ignoreExisting(r.Client.Create(ctx, desired)); err != nil {
			return nil, nil, fmt.Errorf("creating the ClusterRoleBinding of virtual node %s: %w", virtual.Name, err)
		}
	case err != nil:
		return nil, nil, err
	case !equality.Semantic.DeepEqual(binding.Subjects, desired.Subjects):
		return nil, &problem{ReasonClusterRoleBindingConflict, fmt.Sprintf(
			"ClusterRoleBinding %s belongs to another virtual node: create this virtual node with another name.",
			binding.Name)}, nil
	}
	return r.ensureDeployment(ctx, virtual, fc, found)
}

func (r *Reconciler) ensureDeployment(
	ctx context.Context, virtual *v1alpha1.VirtualNode, fc *v1alpha1.ForeignCluster, node *corev1.Node,
) (*appsv1.Deployment, *problem, error) {
	desired, err := r.newDeployment(virtual, naming.ForeignClusterOf(virtual.Namespace))
	if err != nil {
		return nil, nil, err
	}
	found := &appsv1.Deployment{}
	err = r.managed.Get(ctx, client.ObjectKeyFromObject(desired), found)
	switch {
	case apierrors.IsNotFound(err):
		// A new Node would receive pods before it is cordoned.
		if fc != nil && fc.Spec.Cordoned && node == nil {
			message := fmt.Sprintf("ForeignCluster %s is cordoned: no nodes are created for it.", fc.Name)
			return nil, &problem{ReasonCordoned, message}, nil
		}
		if err := ignoreExisting(r.Client.Create(ctx, desired)); err != nil {
			return nil, nil, fmt.Errorf("deploying the virtual kubelet of %s: %w", virtual.Name, err)
		}
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case found.Annotations[annotationTemplate] != desired.Annotations[annotationTemplate]:
		metav1.SetMetaDataAnnotation(&found.ObjectMeta, annotationTemplate, desired.Annotations[annotationTemplate])
		found.Spec.Template = desired.Spec.Template
		// The role allows to update Deployments in peer namespaces, and not to patch them.
		if err := r.Client.Update(ctx, found); err != nil {
			return nil, nil, fmt.Errorf("updating the virtual kubelet of %s: %w", virtual.Name, err)
		}
	}
	return found, nil, nil
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
