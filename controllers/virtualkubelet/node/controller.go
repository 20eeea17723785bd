// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// leaseSeconds is the duration of a node's Lease in seconds, the kubelet's default.
	leaseSeconds = 40
	// heartbeatInterval is the time between two writes of an unchanged node status. It is long because the node's Lease is
	// the heartbeat.
	heartbeatInterval = 5 * time.Minute
)

// Controller returns virtual-kubelet's controller, which creates the Node and updates its status and its Lease. It
// takes over the Lease of an earlier virtual kubelet, and creates the Node again after it was deleted. It fails if the
// options of virtual-kubelet are invalid.
func (n *Node) Controller(initial *corev1.Node, client kubernetes.Interface) (*vknode.NodeController, error) {
	nodes := client.CoreV1().Nodes()
	return vknode.NewNodeController(n, initial, nodes,
		vknode.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds),
		vknode.WithNodePingInterval(checkInterval),
		vknode.WithNodeStatusUpdateInterval(heartbeatInterval),
		vknode.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error {
			if !apierrors.IsNotFound(err) {
				return err
			}
			_, err = nodes.Create(ctx, n.Sync().DeepCopy(), metav1.CreateOptions{})
			return err
		}))
}
