// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/leader"
)

// Terms are the times of the leader election among the replicas of a node's virtual kubelet. Its Lease has the same
// duration as the Lease of a Node, 40 seconds.
var Terms = leader.Terms{
	Name:  "federation-virtual-kubelet",
	Lease: 40 * time.Second,
	Renew: 20 * time.Second,
	Retry: 10 * time.Second,
}

// lockRetry is the time between two attempts to create the Lease of the leader election.
const lockRetry = 2 * time.Second

// NewLock creates the Lease of the leader election, owned by the VirtualNode, and returns its lock. It retries failed
// requests until the context ends, and then fails.
func NewLock(
	ctx context.Context,
	client kubernetes.Interface,
	virtual *v1alpha1.VirtualNode,
) (resourcelock.Interface, error) {
	identity, err := leader.Identity()
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: virtual.Namespace, Name: naming.VirtualKubelet(virtual.Name),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "VirtualNode", Name: virtual.Name, UID: virtual.UID,
		}},
	}}
	if err := wait.PollUntilContextCancel(ctx, lockRetry, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			klog.FromContext(ctx).
				Error(
					err, "Creating the Lease of the node's virtual kubelets failed, retrying", "node",
					virtual.Spec.NodeName,
				)
			return false, nil
		}
		return true, nil
	}); err != nil {
		return nil, err
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}
