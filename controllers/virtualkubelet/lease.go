// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/controllers/leader"
)

// terms are those of the lease that one virtual kubelet of a node has. It costs
// as much as the lease of the node does, and stands by as long as a node is
// waited for.
var terms = leader.Terms{Name: "virtual-kubelet", Lease: 40 * time.Second, Renew: 30 * time.Second, Retry: 10 * time.Second}

// newLock is the Lease of a virtual node, in its namespace. It goes with the
// VirtualNode.
func newLock(ctx context.Context, client kubernetes.Interface, virtual *v1alpha1.VirtualNode) (resourcelock.Interface, error) {
	identity, err := leader.Identity()
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: virtual.Namespace, Name: rules.VirtualKubelet(virtual.Name),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "VirtualNode", Name: virtual.Name, UID: virtual.UID,
		}},
	}}
	if _, err := client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("make the lease of the virtual kubelets of %s: %w", virtual.Spec.NodeName, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}
