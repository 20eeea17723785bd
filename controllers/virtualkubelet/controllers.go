// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// leaseSeconds is the kubelet's default.
	leaseSeconds = 40
	// heartbeatInterval is how often the status of a node is written that does
	// not change: the lease says that it lives.
	heartbeatInterval = 5 * time.Minute
)

// nodeController registers the node and keeps its status and its lease. That of
// an earlier virtual kubelet is simply renewed: it says that the node lives, and
// not by whom.
func (k *kubelet) nodeController(initial *corev1.Node, clients *clients) (*node.NodeController, error) {
	nodes := clients.core.CoreV1().Nodes()
	return node.NewNodeController(k.node, initial, nodes,
		node.WithNodeEnableLeaseV1(clients.core.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds),
		node.WithNodePingInterval(checkInterval),
		node.WithNodeStatusUpdateInterval(heartbeatInterval),
		node.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error {
			if !apierrors.IsNotFound(err) {
				return err
			}
			_, err = nodes.Create(ctx, k.node.sync().DeepCopy(), metav1.CreateOptions{})
			return err
		}))
}

// known are the pods as the kubelet's API sees them.
type known struct{ pods *Pods }

// List is every pod that is bound to the node.
func (s known) List() []*corev1.Pod {
	// A lister of an informer returns no errors.
	pods, _ := s.pods.lister.List(labels.Everything())
	return pods
}

// Find is one pod, and the namespace of its copy.
func (s known) Find(namespace, name string) (*corev1.Pod, string) {
	pod, err := s.pods.lister.Pods(namespace).Get(name)
	if err != nil {
		return nil, ""
	}
	if t := s.pods.twins.extent(namespace).twin; t != nil {
		return pod, t.remote
	}
	return pod, ""
}

// RemoteStatus is how the provider's copy of a pod does.
func (s known) RemoteStatus(namespace, name string) *corev1.PodStatus {
	if t := s.pods.twins.extent(namespace).twin; t != nil {
		if pod := t.pod(name); pod != nil {
			return &pod.Status
		}
	}
	return nil
}
