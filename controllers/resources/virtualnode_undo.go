// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/podspec"
)

// undo takes a virtual node apart: its pods go home first, for as long as
// there is time, then its kubelet, the Node, and the rights of the kubelet.
func (r *virtualNodes) undo(ctx context.Context, virtual *v1alpha1.VirtualNode) (time.Duration, error) {
	if !slices.Contains(virtual.Finalizers, v1alpha1.Finalizer) {
		return 0, nil
	}
	node, err := r.getNode(virtual.Spec.NodeName)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err == nil && isOurs(node, virtual) {
		// Also where no time is left: no pod is to come meanwhile.
		if !node.Spec.Unschedulable {
			if err := r.cordonNode(ctx, node); err != nil {
				return 0, fmt.Errorf("cordon node %s: %w", node.Name, err)
			}
		}
		if left := r.drainTime(virtual); left > 0 {
			drained, err := r.drain(ctx, node)
			if err != nil || !drained {
				return min(left, podsRetry), err
			}
		}
	} else {
		node = nil
	}
	deployment, err := r.getDeployment(virtual.Namespace, kubeletName(virtual))
	if err == nil {
		// Its pods go before it does, so that nobody makes the Node anew.
		if deployment.DeletionTimestamp == nil {
			err = r.removeDeployment(ctx, deployment)
		}
		return 0, ignoreNotFound(err)
	}
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	if node != nil {
		r.abandonPods(ctx, node)
		if err := ignoreNotFound(r.removeNode(ctx, node)); err != nil {
			return 0, fmt.Errorf("remove node %s: %w", node.Name, err)
		}
	}
	r.forgetPods(virtual.Spec.NodeName)
	return 0, r.revoke(ctx, virtual)
}

const (
	// revokedDrain is how long pods are evicted from a node whose provider does
	// not let this cluster see them end. It has to have said so for
	// revokedPatience, in which rights come back that were lost by mistake.
	revokedDrain    = 10 * time.Second
	revokedPatience = time.Minute
)

// drainTime is how long pods may still take: part of what the whole peering
// has for being undone, and no longer than somebody could tell that they end.
func (r *virtualNodes) drainTime(virtual *v1alpha1.VirtualNode) time.Duration {
	seconds := v1alpha1.DefaultDisconnectTimeoutSeconds
	fc, err := r.foreignCluster(naming.ForeignClusterOf(virtual.Namespace))
	if err == nil && fc.Spec.DisconnectTimeoutSeconds != nil {
		seconds = *fc.Spec.DisconnectTimeoutSeconds
	}
	now := r.clock.Now()
	left := virtual.DeletionTimestamp.Add(time.Duration(seconds) * time.Second * 2 / 3).Sub(now)
	if err != nil {
		return left
	}
	if since, revoked := identity.RevokedSince(fc); revoked {
		left = min(left, max(virtual.DeletionTimestamp.Add(revokedDrain).Sub(now), since.Add(revokedPatience).Sub(now)))
	}
	return left
}

// drain evicts the pods of offloaded namespaces from a node, and tells whether
// they are gone. One that a PodDisruptionBudget holds back is tried again. All
// others have not left this cluster: they go with the node. So do those of
// DaemonSets that tolerate everything, which would come again, as they do where
// kubectl drains with --ignore-daemonsets.
func (r *virtualNodes) drain(ctx context.Context, node *corev1.Node) (bool, error) {
	pods, complete, err := r.pods(ctx, node.Name)
	if err != nil || !complete {
		return false, err
	}
	drained := true
	var refused []error
	for _, pod := range pods {
		if !r.offloaded(pod.Namespace) || podspec.BelongsToItsNode(pod) {
			continue
		}
		drained = false
		if pod.DeletionTimestamp != nil {
			continue
		}
		if err := ignoreNotFound(r.evictPod(ctx, pod)); err != nil && !apierrors.IsTooManyRequests(err) {
			// The others go home all the same.
			refused = append(refused, fmt.Errorf("evict pod %s/%s from node %s: %w", pod.Namespace, pod.Name, node.Name, err))
		}
	}
	return drained, errors.Join(refused...)
}

// abandonPods removes what is left on a node that goes: nobody will tell any
// more how it ends. Kubernetes would find that out a minute later, and whatever
// waits for these pods, as the deletion of their namespace, even later; so what
// does not get removed here does not hold up the node.
func (r *virtualNodes) abandonPods(ctx context.Context, node *corev1.Node) {
	pods, _, err := r.pods(ctx, node.Name)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Left the pods of a node to the garbage collection", "node", node.Name)
		return
	}
	for _, pod := range pods {
		if err := r.removePod(ctx, pod); ignoreNotFound(err) != nil {
			klog.FromContext(ctx).Error(err, "Left a pod to the garbage collection", "pod", klog.KObj(pod), "node", node.Name)
		}
	}
}

// revoke takes the rights of the kubelet away, and lets the virtual node go.
func (r *virtualNodes) revoke(ctx context.Context, virtual *v1alpha1.VirtualNode) error {
	binding, err := r.bindingNow(ctx, bindingName(virtual))
	if err == nil && len(binding.Subjects) == 1 && binding.Subjects[0].Namespace == virtual.Namespace {
		err = r.removeBinding(ctx, binding)
	}
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("unbind the role of virtual node %s: %w", virtual.Name, err)
	}
	account, err := r.getAccount(virtual.Namespace, kubeletName(virtual))
	if err == nil {
		err = r.removeAccount(ctx, account)
	}
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("remove the service account of virtual node %s: %w", virtual.Name, err)
	}
	released := virtual.DeepCopy()
	released.Finalizers = slices.DeleteFunc(released.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	_, err = r.commit(ctx, virtual, released)
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
