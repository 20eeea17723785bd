// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// List returns every local pod that is bound to the node.
func (c *Controller) List() []*corev1.Pod {
	// A lister of an informer returns no errors.
	pods, _ := c.Lister.List(labels.Everything())
	return pods
}

// Find returns a local pod, or nil if the pod does not exist, and the remote namespace of its namespace, or empty if
// the NamespaceMap has none.
func (c *Controller) Find(namespace, name string) (*corev1.Pod, string) {
	pod, err := c.Lister.Pods(namespace).Get(name)
	if err != nil {
		return nil, ""
	}
	if t := c.Namespaces.State(namespace).Namespace; t != nil {
		return pod, t.Remote
	}
	return pod, ""
}

// RemoteStatus returns the status of the remote pod of a local pod; nil if the cache has no remote pod.
func (c *Controller) RemoteStatus(namespace, name string) *corev1.PodStatus {
	if t := c.Namespaces.State(namespace).Namespace; t != nil {
		if pod := t.Pod(name); pod != nil {
			return &pod.Status
		}
	}
	return nil
}
