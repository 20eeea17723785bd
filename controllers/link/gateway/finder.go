// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// Finder derives the endpoints at which peers reach the gateway from the gateway's Service.
type Finder struct {
	// Nodes reads the nodes. Installation reads the gateway's Service and pods.
	Nodes, Installation client.Reader
	// Namespace is the installation namespace.
	Namespace string
}

// NewFinder returns a Finder that reads the caches of a manager and of the installation namespace. It
// creates the informers for the kinds that it reads, and fails if that fails.
func NewFinder(ctx context.Context, manager ctrl.Manager, installation cache.Cache, namespace string) (*Finder, error) {
	for _, kind := range []struct {
		cache  cache.Cache
		object client.Object
	}{{manager.GetCache(), &corev1.Node{}}, {installation, &corev1.Service{}}, {installation, &corev1.Pod{}}} {
		if _, err := kind.cache.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("caching %T: %w", kind.object, err)
		}
	}
	return &Finder{Nodes: manager.GetCache(), Installation: installation, Namespace: namespace}, nil
}

// Find returns the endpoints at which peers reach the gateway, the preferred one first, and the gateway's
// Service. Both are nil if the Service does not exist.
func (f *Finder) Find(ctx context.Context) ([]string, *corev1.Service, error) {
	service := &corev1.Service{}
	err := f.Installation.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: v1alpha1.GatewayName}, service)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var pods corev1.PodList
	if err := f.Installation.List(ctx, &pods, client.InNamespace(f.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var nodes corev1.NodeList
	if err := f.Nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	return endpointsOf(service, nodes.Items, pods.Items), service, nil
}

// Endpoints returns the endpoints at which peers reach the gateway through its Service.
func (f *Finder) Endpoints(ctx context.Context) ([]string, error) {
	endpoints, _, err := f.Find(ctx)
	return endpoints, err
}

// Sources returns the sources for a controller that uses a Finder. They call requests for each change of an
// object that may change the endpoints.
func Sources(manager ctrl.Manager, installation cache.Cache, requests handler.EventHandler) []source.Source {
	return []source.Source{
		source.Kind[client.Object](installation, &corev1.Service{}, requests),
		source.Kind[client.Object](installation, &corev1.Pod{}, requests, kit.Changed(podMoved)),
		source.Kind[client.Object](manager.GetCache(), &corev1.Node{}, requests, kit.Changed(nodeChanged)),
	}
}

// nodeChanged reports whether an update of a node changes its addresses or its readiness.
func nodeChanged(old, current *corev1.Node) bool {
	return isReady(old) != isReady(current) || !equality.Semantic.DeepEqual(old.Status.Addresses, current.Status.Addresses)
}

// podMoved reports whether an update of a pod changes its node, or ends the pod.
func podMoved(old, current *corev1.Pod) bool { return nodeOf(old) != nodeOf(current) }
