// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/leader"
	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/virtualkubelet/mirror"
	"liqo.io/federation/controllers/virtualkubelet/node"
	"liqo.io/federation/controllers/virtualkubelet/pods"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// kubelet is a virtual kubelet with its clients, caches and controllers.
type kubelet struct {
	options    *Options
	clients    *clients
	to         translate.Destination
	informers  *informers
	node       *node.Node
	pods       *pods.Controller
	namespaces *remotens.Set
	mirror     *mirror.Controller
	network    *pods.Network
	leftovers  *pods.Leftovers
	events     record.EventBroadcaster
	// remapped has one value while a call of sync is requested.
	remapped chan struct{}
}

// assemble returns a virtual kubelet and starts to fill its caches. It fails if --consumer-api-server is invalid or an
// event handler cannot be added.
func assemble(ctx context.Context, options *Options, clients *clients, own *Metrics) (*kubelet, error) {
	api, err := options.consumerAPI()
	if err != nil {
		return nil, fmt.Errorf("--consumer-api-server: %w", err)
	}
	// The events of the new informers count every pod again.
	own.pods.Reset()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.core.CoreV1().Events("")})
	k := &kubelet{
		options: options, clients: clients,
		to: translate.Destination{
			OriginID: options.ClusterID, DestinationID: options.RemoteClusterID, NodeName: options.NodeName,
			ConsumerAPI: api,
		},
		informers: newInformers(clients, options),
		events:    broadcaster,
		remapped:  make(chan struct{}, 1),
	}
	recorder := broadcaster.NewRecorder(
		scheme.Scheme,
		corev1.EventSource{Component: "federation-virtual-kubelet", Host: options.NodeName},
	)
	warnings := pods.NewWarnings()
	k.network = &pods.Network{
		VirtualNode: k.informers.virtualNode, ClusterInfo: k.informers.clusterInfo, Mapped: k.informers.mapped,
		Refused: options.refusedEndpointCIDRs(),
	}
	k.node = node.New(node.Config{
		Provider: options.ForeignCluster, Address: options.NodeIP, Port: options.Port,
		Check:       func(ctx context.Context) (string, error) { return clients.check(ctx, k.informers.virtualNode()) },
		VirtualNode: k.informers.virtualNode,
		Back:        k.enqueueAll,
		Clock:       clock.RealClock{},
		Metrics:     own.node,
	})
	k.namespaces = &remotens.Set{
		Provider: options.ForeignCluster,
		Maps:     k.informers.maps.Lister().NamespaceMaps(options.Namespace),
		Start: func(mapping v1alpha1.NamespaceMapping) (*remotens.Namespace, error) {
			return remotens.Start(ctx, clients.remote, mapping, k.to, k.namespaceEvents())
		},
		Changed: func(namespace string) { k.pods.EnqueueNamespace(namespace) },
	}
	k.leftovers = pods.NewLeftovers(
		k.to,
		clients.remote.Federation,
		k.liveNodes,
		k.decides,
		k.namespaces,
		clock.RealClock{},
	)
	k.mirror = mirror.New(mirror.Config{
		Provider: options.ForeignCluster, To: k.to, Namespaces: k.namespaces,
		Local: clients.core, Remote: clients.remote.Core,
		LocalDynamic: clients.dynamic, RemoteDynamic: clients.remote.Dynamic,
		RemoteFederation: clients.remote.Federation,
		Served: mcs.NewServed(
			clients.core.Discovery(), clock.RealClock{}, mcsv1alpha1.ServiceExportPluralName,
		),
		View: translate.View{
			RunsOnProvider: func(node string) bool { return k.informers.isOf(options.RemoteClusterID, node) },
			Address:        k.network.ToRemote,
		},
		VirtualNode: func() *v1alpha1.VirtualNode { return k.informers.deciding(options.RemoteClusterID) },
		Recorder:    recorder, Metrics: own.mirror, Reachable: k.node.Reachable, Warnings: warnings,
		Clock: clock.RealClock{},
	})
	k.pods = pods.New(pods.Config{
		NodeName: options.NodeName, NodeIP: options.NodeIP, Provider: options.ForeignCluster, To: k.to,
		Local: clients.core, Remote: clients.remote, Lister: k.informers.pods.Lister(), Namespaces: k.namespaces,
		Recorder: recorder, Metrics: own.pods, Clock: clock.RealClock{}, Warnings: warnings,
		Patch: k.informers.patch, Network: k.network, Reachable: k.node.Reachable,
		ConsumerAPIServerThroughTunnels: options.ConsumerAPIServerThroughTunnels,
		APIAccessAllowed:                k.informers.apiAccessAllowed, Audience: clients.audience,
		OfferedNode: k.informers.offeredNode,
	})
	return k, k.informers.start(ctx, handlers{
		pods:        k.pods.LocalEvents(),
		virtualNode: k.virtualNodeChanged,
		maps:        k.remap,
		nodeGone:    k.node.Rewrite,
		clusterInfo: k.clusterInfoChanged,
		mapped: func(address string) {
			if options.ConsumerAPIServerThroughTunnels && sameAddress(address, api.Host) {
				k.pods.EnqueueAll()
			}
			k.mirror.EnqueueEndpoints(address)
		},
	})
}

// namespaceEvents returns the callbacks of the pod controller for changes in remote namespaces. In addition, they
// delete leftover shadow pods, and record warnings about reflected objects.
func (k *kubelet) namespaceEvents() remotens.Events {
	events := k.pods.Events()
	synced, warn := events.Synced, events.Warning
	events.Synced = func(namespace string) { synced(namespace); k.leftovers.Check(namespace) }
	events.Warning = func(key cache.ObjectName, event *corev1.Event) {
		warn(key, event)
		// All virtual kubelets of the provider receive the warnings about reflected objects; only one records them.
		if k.decides() {
			k.mirror.Warn(key.Namespace, event)
		}
	}
	return events
}

// decides reports whether this virtual kubelet does the work that only one of the provider's virtual kubelets does, for
// example recording warnings about reflected objects. It is the one whose VirtualNode has the reflection policy for all
// virtual nodes of the provider.
func (k *kubelet) decides() bool {
	vn := k.informers.deciding(k.options.RemoteClusterID)
	return vn != nil && vn.Name == k.options.VirtualNode
}

// liveNodes returns the names of the provider's virtual nodes. It lists VirtualNodes from the API server, not the
// cache.
func (k *kubelet) liveNodes(ctx context.Context) ([]string, error) {
	list, err := k.clients.federation.FederationV1alpha1().
		VirtualNodes(k.options.Namespace).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]*v1alpha1.VirtualNode, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return nodeNames(all, k.options.RemoteClusterID), nil
}

func (k *kubelet) virtualNodeChanged() {
	k.leftovers.SetNodes(k.informers.nodes(k.options.RemoteClusterID))
	k.node.Sync()
	k.pods.Refresh()
	if k.network.Changed() {
		k.enqueueAll()
	}
	k.remap()
}

func (k *kubelet) clusterInfoChanged() {
	if k.network.Changed() {
		k.enqueueAll()
	}
}

func (k *kubelet) enqueueAll() {
	k.pods.EnqueueAll()
	k.mirror.EnqueueAll()
}

// work waits until the caches are filled and this replica of the virtual kubelet holds the Lease of the leader
// election, and then runs the controllers. Without a leader, replicas would overwrite each other's changes. It fails if
// the VirtualNode does not exist, and with leader.ErrLost when the Lease is lost.
func (k *kubelet) work(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), k.informers.synced) {
		return ctx.Err()
	}
	if k.informers.virtualNode() == nil {
		return fmt.Errorf("VirtualNode %s of node %s does not exist in namespace %s",
			k.options.VirtualNode, k.options.NodeName, k.options.Namespace)
	}
	lock, err := node.NewLock(ctx, k.clients.core, k.informers.virtualNode())
	if err != nil {
		return err
	}
	var failed error
	if err := leader.Lead(ctx, lock, node.Terms, func(ctx context.Context) { failed = k.lead(ctx) }); err != nil {
		return err
	}
	return failed
}

// lead runs the controllers of the leader until the context ends or one of them fails.
func (k *kubelet) lead(ctx context.Context) error {
	// sync comes first, so that the remote namespaces are listed while node.Start checks the provider.
	if err := k.sync(ctx); err != nil {
		return err
	}
	nodes, err := k.node.Controller(k.node.Start(ctx), k.clients.core)
	if err != nil {
		return fmt.Errorf("creating the node controller: %w", err)
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Run(ctx) })
	for _, run := range []func(context.Context){
		k.pods.Run, k.node.Run, k.mirror.Run, k.leftovers.Run, k.mirror.Served.Run,
	} {
		group.Go(func() error { run(ctx); return nil })
	}
	group.Go(func() error { return k.syncOnRequest(ctx) })
	return group.Wait()
}

// sync starts and stops the watches and the reflection of remote namespaces, as the NamespaceMap and the VirtualNodes
// specify.
func (k *kubelet) sync(ctx context.Context) error {
	if err := k.namespaces.Sync(ctx); err != nil {
		return err
	}
	return k.mirror.Sync(ctx)
}

// remap requests a call of sync, for example after the NamespaceMap changed, and does not wait for it. Requests before
// the call are merged.
func (k *kubelet) remap() {
	select {
	case k.remapped <- struct{}{}:
	default:
	}
}

// syncOnRequest calls sync whenever remap requested it. It returns nil when the context ends, and an error when sync
// fails.
func (k *kubelet) syncOnRequest(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.remapped:
			if err := k.sync(ctx); err != nil {
				return err
			}
		}
	}
}
