// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/kit"
)

const (
	// maxEntries is the maximum number of remote namespaces of the consumer on one provider.
	maxEntries = 1000
	// timeout is the maximum time for which the unoffloading of a namespace waits for pods to end and for
	// providers to delete remote namespaces.
	timeout = time.Duration(v1alpha1.DefaultDisconnectTimeoutSeconds) * time.Second
	// evictionTime is the part of timeout in which pods are evicted. Remaining pods are then deleted, and have
	// the rest of timeout to end.
	evictionTime = timeout * 2 / 3
	// pollInterval is the time between two reconciles of a namespace that is being unoffloaded, or whose pods are
	// not all cached yet.
	pollInterval = time.Second
	// settleTime is the delay of a reconcile after a pod changed, so that it handles further changes, too.
	settleTime = 500 * time.Millisecond
)

// Config is the configuration of the two controllers of this package.
type Config struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// ClusterName and ClusterID are the name and the ID of the consumer. NamespaceMaps and remote namespaces are
	// named after them.
	ClusterName, ClusterID string
	// Pods caches the pods of offloaded namespaces.
	Pods Pods
	// Volumes lists, moves, retains or deletes the data that providers store for claims.
	Volumes Volumes

	// maps enqueues NamespaceMaps.
	maps kit.Trigger
}

// Pods caches and watches the pods of single namespaces.
type Pods interface {
	// Listen adds a function that is called with each changed pod and its namespace. It must be called before List.
	Listen(changed func(namespace string, pod *corev1.Pod))
	// List returns the cached pods of a namespace, and reports whether all are cached. The first call starts the watch.
	List(ctx context.Context, namespace string) ([]*corev1.Pod, bool, error)
	// Seen is List without starting a watch: if the namespace is not watched, it returns no pods and false.
	Seen(namespace string) ([]*corev1.Pod, bool)
	// Forget stops the watch of a namespace.
	Forget(namespace string)
}

// offloadingRequest returns the request of the NamespaceOffloading of a namespace.
func offloadingRequest(namespace string) reconcile.Request {
	return kit.Request(namespace, v1alpha1.NamespaceOffloadingName)
}

// consumerOf reports whether this cluster is the consumer of a NamespaceMap.
func (c *Config) consumerOf(namespaceMap client.Object) bool {
	return naming.IsPeerNamespace(namespaceMap.GetNamespace()) && namespaceMap.GetName() == c.ClusterName
}

// unoffloading reports whether a namespace is being unoffloaded.
func (c *Config) unoffloading(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) bool {
	return !offloading.DeletionTimestamp.IsZero() || c.isDeleted(ctx, offloading.Namespace)
}

// isDeleted reports whether a namespace is being deleted.
func (c *Config) isDeleted(ctx context.Context, name string) bool {
	namespace := c.namespace(ctx, name)
	return namespace != nil && !namespace.DeletionTimestamp.IsZero()
}

// namespace returns a cached namespace, which the caller must not change; nil if it does not exist.
func (c *Config) namespace(ctx context.Context, name string) *corev1.Namespace {
	namespace := &corev1.Namespace{}
	if c.Client.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy) != nil {
		// Reading from a synced cache fails only with NotFound.
		return nil
	}
	return namespace
}

// nodes returns a function that returns a cached Node, which the caller must not change; nil if the Node does
// not exist.
func (c *Config) nodes(ctx context.Context) placement.Nodes {
	return func(name string) *corev1.Node {
		node := &corev1.Node{}
		if c.Client.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		return node
	}
}

// remoteName returns the name of the remote namespaces of an offloaded namespace.
func (c *Config) remoteName(offloading *v1alpha1.NamespaceOffloading) string {
	return naming.RemoteNamespace(offloading.Namespace, &offloading.Spec, c.ClusterName, c.ClusterID)
}

// offloadings returns all cached NamespaceOffloadings, which the caller must not change.
func (c *Config) offloadings(ctx context.Context) ([]*v1alpha1.NamespaceOffloading, error) {
	var list v1alpha1.NamespaceOffloadingList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return kit.Pointers(list.Items), nil
}

// provider returns a foreign cluster with its virtual nodes. The caller must not change them.
func (c *Config) provider(ctx context.Context, cluster *v1alpha1.ForeignCluster) (placement.Provider, error) {
	var virtualNodes v1alpha1.VirtualNodeList
	err := c.Client.List(ctx, &virtualNodes, client.InNamespace(naming.PeerNamespace(cluster.Name)),
		client.UnsafeDisableDeepCopy)
	return placement.Provider{Cluster: cluster, VirtualNodes: kit.Pointers(virtualNodes.Items)}, err
}

// providers returns the foreign clusters that have virtual nodes, sorted by name.
func (c *Config) providers(ctx context.Context) ([]placement.Provider, error) {
	var clusters v1alpha1.ForeignClusterList
	if err := c.Client.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var all []placement.Provider
	for i := range clusters.Items {
		provider, err := c.provider(ctx, &clusters.Items[i])
		if err != nil {
			return nil, err
		}
		if len(provider.VirtualNodes) > 0 {
			all = append(all, provider)
		}
	}
	slices.SortFunc(all, func(a, b placement.Provider) int { return strings.Compare(a.Cluster.Name, b.Cluster.Name) })
	return all, nil
}

// keeping returns the number of those pods, out of pods, that run on a provider and prevent the deletion of the
// remote namespace until they end. If misplaced pods are evicted, pods of DaemonSets do not count, because each would
// be created again on the same virtual node.
func keeping(offloading *v1alpha1.NamespaceOffloading, provider placement.Provider, pods []*corev1.Pod) int {
	if offloading.Spec.Enforcement == v1alpha1.Evict {
		pods = slices.DeleteFunc(slices.Clone(pods), podspec.BelongsToItsNode)
	}
	return provider.PodsAt(pods)
}
