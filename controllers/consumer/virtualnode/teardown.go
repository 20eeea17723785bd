// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/kit"
)

const (
	// revokedDrain is the time for which pods are evicted from a node whose provider revoked the identity. It is short
	// because the end of these pods cannot be observed. drainTime also waits until revokedGrace has passed since the
	// revocation, in which an administrator can restore roles that were removed by mistake.
	revokedDrain = 10 * time.Second
	revokedGrace = time.Minute
)

// tearDown removes a virtual node: it cordons the Node, evicts its pods until drainTime is over, and then deletes the
// virtual kubelet, the Node, and the virtual kubelet's ServiceAccount and ClusterRoleBinding. It returns the time
// after which to reconcile again.
func (r *Reconciler) tearDown(ctx context.Context, virtual *v1alpha1.VirtualNode) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(virtual, v1alpha1.Finalizer) {
		return 0, nil
	}
	node, err := r.node(ctx, virtual)
	if err != nil {
		return 0, err
	}
	if belongs(node, virtual) {
		// A pod that is scheduled after the drain would not be evicted.
		if !node.Spec.Unschedulable {
			desired := node.DeepCopy()
			desired.Spec.Unschedulable = true
			if _, err := kit.Commit(ctx, r.Client, node, desired); err != nil {
				return 0, fmt.Errorf("cordoning node %s: %w", node.Name, err)
			}
		}
		left, err := r.drainTime(ctx, virtual)
		if err != nil {
			return 0, err
		}
		if left > 0 {
			drained, err := r.drain(ctx, node)
			if err != nil || !drained {
				return min(left, podsRetry), err
			}
		}
	} else {
		node = nil
	}
	deployment := &appsv1.Deployment{}
	err = r.managed.Get(ctx, client.ObjectKey{Namespace: virtual.Namespace, Name: kubeletName(virtual)}, deployment)
	if err == nil {
		// Foreground deletion ends the pods of the Deployment first, so that no virtual kubelet creates the Node
		// again.
		if deployment.DeletionTimestamp != nil {
			return 0, nil
		}
		return 0, kit.Delete(ctx, r.Client, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	if node != nil {
		r.deletePods(ctx, node)
		if err := kit.Delete(ctx, r.Client, node); err != nil {
			return 0, err
		}
	}
	r.Pods.Forget(virtual.Spec.NodeName)
	r.uses.forget(virtual.Spec.NodeName)
	return 0, r.revoke(ctx, virtual)
}

// drainTime returns the remaining time for draining the node, which is zero or negative once the time is over. The
// drain ends two thirds of the disconnect timeout after the deletion of the virtual node. If the provider revoked the
// identity, it ends sooner if both revokedDrain has passed since the deletion and revokedGrace since the revocation.
func (r *Reconciler) drainTime(ctx context.Context, virtual *v1alpha1.VirtualNode) (time.Duration, error) {
	fc, err := r.foreignCluster(ctx, virtual)
	if err != nil {
		return 0, err
	}
	seconds := v1alpha1.DefaultDisconnectTimeoutSeconds
	if fc != nil && fc.Spec.DisconnectTimeoutSeconds != nil {
		seconds = *fc.Spec.DisconnectTimeoutSeconds
	}
	now := r.Clock.Now()
	left := virtual.DeletionTimestamp.Add(time.Duration(seconds) * time.Second * 2 / 3).Sub(now)
	if fc == nil {
		return left, nil
	}
	if since, revoked := identity.RevokedSince(fc); revoked {
		left = min(left, max(virtual.DeletionTimestamp.Add(revokedDrain).Sub(now), since.Add(revokedGrace).Sub(now)))
	}
	return left, nil
}

// drain evicts the pods of offloaded namespaces from a node, and reports whether none is left. Evictions that a
// PodDisruptionBudget refuses are retried. Other pods, which were never offloaded, and pods of DaemonSets, which would
// be created again, are deleted with the node.
func (r *Reconciler) drain(ctx context.Context, node *corev1.Node) (bool, error) {
	pods, complete, err := r.Pods.List(ctx, node.Name)
	if err != nil || !complete {
		return false, err
	}
	drained := true
	var refused []error
	for _, pod := range pods {
		if !r.offloaded(ctx, pod.Namespace) || podspec.BelongsToItsNode(pod) {
			continue
		}
		drained = false
		if pod.DeletionTimestamp != nil {
			continue
		}
		if err := kit.Evict(ctx, r.Client, pod); client.IgnoreNotFound(err) != nil &&
			!apierrors.IsTooManyRequests(err) {
			// An error must not prevent the eviction of the other pods.
			refused = append(
				refused, fmt.Errorf("evicting pod %s/%s from node %s: %w", pod.Namespace, pod.Name, node.Name, err),
			)
		}
	}
	return drained, errors.Join(refused...)
}

func (r *Reconciler) offloaded(ctx context.Context, name string) bool {
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	return err == nil && placement.Offloaded(namespace, r.Reserved...)
}

// deletePods force deletes the remaining pods of a node that is being deleted, because no kubelet will report their
// end. Otherwise pod garbage collection would delete them a minute later, which would delay, for example, the deletion
// of their namespace. A pod that cannot be deleted does not block the deletion of the node.
func (r *Reconciler) deletePods(ctx context.Context, node *corev1.Node) {
	logger := klog.FromContext(ctx)
	pods, _, err := r.Pods.List(ctx, node.Name)
	if err != nil {
		logger.Error(
			err, "Listing the pods of a node failed, leaving them to pod garbage collection", "node", node.Name,
		)
		return
	}
	for _, pod := range pods {
		if err := kit.Delete(ctx, r.Client, pod, client.GracePeriodSeconds(0)); err != nil {
			logger.Error(err, "Deleting a pod failed, leaving it to pod garbage collection",
				"pod", klog.KObj(pod), "node", node.Name)
		}
	}
}

// revoke deletes the ClusterRoleBinding and the ServiceAccount of the virtual kubelet, and removes the finalizer of the
// virtual node.
func (r *Reconciler) revoke(ctx context.Context, virtual *v1alpha1.VirtualNode) error {
	// Read from the API server, because a ClusterRoleBinding that is not cached yet would never be deleted.
	binding := &rbacv1.ClusterRoleBinding{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: bindingName(virtual)}, binding)
	if err == nil && len(binding.Subjects) == 1 && binding.Subjects[0].Namespace == virtual.Namespace {
		err = kit.Delete(ctx, r.Client, binding)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the ClusterRoleBinding of virtual node %s: %w", virtual.Name, err)
	}
	account := &corev1.ServiceAccount{}
	err = r.managed.Get(ctx, client.ObjectKey{Namespace: virtual.Namespace, Name: kubeletName(virtual)}, account)
	if err == nil {
		err = kit.Delete(ctx, r.Client, account)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the ServiceAccount of virtual node %s: %w", virtual.Name, err)
	}
	released := virtual.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.Finalizer)
	_, err = kit.Commit(ctx, r.Client, virtual, released)
	return client.IgnoreNotFound(err)
}
