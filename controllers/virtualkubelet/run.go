// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/log/klogv2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/leader"
	"liqo.io/federation/controllers/logging"
	"liqo.io/federation/controllers/multicluster"
	"liqo.io/federation/controllers/virtualkubelet/server"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Run is a virtual kubelet: it works until the context ends, and then leaves
// the node and its pods as they are, for the next one to take over. So it does
// when the provider is reached in another way, or another virtual kubelet may
// have begun, and stands by itself. Its metrics are registered with the function
// given.
func Run(ctx context.Context, options *Options, register func(metrics.Registerable) error) error {
	ctx = logging.WithoutBodies(ctx)
	log.L = quiet{klogv2.New(nil)}
	klog.FromContext(ctx).Info("Starting", "node", options.NodeName, "provider", options.ForeignCluster)

	own, err := NewMetrics(register)
	if err != nil {
		return err
	}
	// Once and for all: who loses the lease because this cluster's API is away
	// serves its probes meanwhile, and does not ask it for anything to begin.
	auth, err := newAuth(ctx, options)
	if err != nil {
		return err
	}
	for {
		err = runOnce(ctx, options, own, auth)
		switch {
		case errors.Is(err, errMoved):
			klog.FromContext(ctx).Info("The provider is reached in another way now, connecting anew", "node", options.NodeName)
		case errors.Is(err, leader.ErrLost):
			klog.FromContext(ctx).Info("Standing by", "node", options.NodeName, "reason", err.Error())
		default:
			return err
		}
	}
}

// newAuth tells who asks for the kubelet's API, and whether they may.
func newAuth(ctx context.Context, options *Options) (*server.Auth, error) {
	here, err := local(options)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(tuned(here, options))
	if err != nil {
		return nil, fmt.Errorf("making clients of this cluster: %w", err)
	}
	return server.NewAuth(ctx, client, options.NodeName)
}

// runOnce runs until the context ends, the provider is reached in another way or
// another virtual kubelet may have begun.
func runOnce(ctx context.Context, options *Options, own *Metrics, auth *server.Auth) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(options.Port))))
	if err != nil {
		return fmt.Errorf("listening for the kubelet's API: %w", err)
	}
	clients, err := connect(options)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	k, err := assemble(ctx, options, clients, own)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer k.events.Shutdown()

	group.Go(func() error { return k.serve(ctx, options, clients, listener, auth) })
	group.Go(func() error { return k.work(ctx, options, clients) })
	group.Go(func() error { return stays(ctx, clients.identity, options.IdentityDir, clock.RealClock{}) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// kubelet is a virtual kubelet put together.
type kubelet struct {
	informers *informers
	node      *Node
	pods      *Pods
	twins     *twins
	reflected *Reflections
	network   *network
	leftovers *leftovers
	events    record.EventBroadcaster
	// remapped tells that the NamespaceMap or a VirtualNode has changed.
	remapped chan struct{}
}

// assemble puts a virtual kubelet together and starts its caches.
func assemble(ctx context.Context, options *Options, clients *clients, own *Metrics) (*kubelet, error) {
	home, err := options.home()
	if err != nil {
		return nil, fmt.Errorf("--home-server: %w", err)
	}
	// Those of the time before are counted anew.
	own.pods.Set(0)
	to := translate.Destination{OriginID: options.ClusterID, DestinationID: options.RemoteClusterID, NodeName: options.NodeName, ConsumerAPI: home}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.core.CoreV1().Events("")})
	k := &kubelet{
		informers: newInformers(clients, options),
		events:    broadcaster,
		remapped:  make(chan struct{}, 1),
	}
	k.network = &network{virtualNode: k.informers.virtualNode, mapped: k.informers.mapped}
	k.node = &Node{
		provider: options.ForeignCluster, address: options.NodeIP, port: options.Port,
		check:       func(ctx context.Context) (string, error) { return clients.check(ctx, k.informers.virtualNode()) },
		virtualNode: k.informers.virtualNode,
		back:        func() { k.pods.enqueueAll(); k.reflected.enqueueAll() },
		clock:       clock.RealClock{},
		metrics:     own,
		changed:     make(chan struct{}, 1),
	}
	k.leftovers = &leftovers{
		to: to, remote: clients.remote.Federation, clock: clock.RealClock{},
		nodes: func(ctx context.Context) ([]string, error) {
			list, err := clients.federation.FederationV1alpha1().VirtualNodes(options.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			all := make([]*v1alpha1.VirtualNode, len(list.Items))
			for i := range list.Items {
				all[i] = &list.Items[i]
			}
			return nodeNames(all, options.RemoteClusterID), nil
		},
		decides: func() bool {
			vn := k.informers.deciding(options.RemoteClusterID)
			return vn != nil && vn.Name == options.VirtualNode
		},
		twin: func(namespace string) string {
			if t := k.twins.extent(namespace).twin; t != nil {
				return t.remote
			}
			return ""
		},
		all:  func() []string { return slices.Collect(maps.Keys(k.twins.all())) },
		wake: make(chan struct{}, 1), pending: sets.New[string](),
	}
	k.twins = &twins{
		provider: options.ForeignCluster,
		maps:     k.informers.maps.Lister().NamespaceMaps(options.Namespace),
		start: func(mapping v1alpha1.NamespaceMapping) (*twin, error) {
			events := k.pods.twinEvents()
			synced := events.synced
			events.synced = func(namespace string) { synced(namespace); k.leftovers.look(namespace) }
			events.warning = func(key cache.ObjectName, event *corev1.Event) {
				k.pods.warn(key, event)
				// Copies are all virtual kubelets' of the provider: one tells.
				if k.leftovers.decides() {
					k.reflected.warn(key.Namespace, event)
				}
			}
			return startTwin(ctx, clients.remote, mapping, to, events)
		},
		changed: func(namespace string) { k.pods.enqueueNamespace(namespace) },
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "virtual-kubelet", Host: options.NodeName})
	warnings := flowcontrol.NewTokenBucketPassiveRateLimiter(warningsPerSecond, warningsAtOnce)
	k.reflected = (&Reflections{
		provider: options.ForeignCluster, to: to, local: clients.core, remote: clients.remote.Core, twins: k.twins,
		localDynamic: clients.dynamic, remoteDynamic: clients.remote.Dynamic, remoteFederation: clients.remote.Federation,
		served: multicluster.NewServed(clients.core, clock.RealClock{}, mcsv1alpha1.ServiceExportPluralName),
		view: translate.View{
			RunsOnProvider: func(node string) bool { return k.informers.standsFor(options.RemoteClusterID, node) },
			Address:        k.network.there,
		},
		virtualNode: func() *v1alpha1.VirtualNode { return k.informers.deciding(options.RemoteClusterID) },
		recorder:    recorder, metrics: own, reachable: k.node.reachable, warnings: warnings,
	}).complete()
	k.pods = &Pods{
		nodeName: options.NodeName, nodeIP: options.NodeIP, provider: options.ForeignCluster, to: to,
		local: clients.core, remote: clients.remote, homeAudience: clients.homeAudience,
		lister: k.informers.pods.Lister(), twins: k.twins,
		recorder: recorder,
		metrics:  own, clock: clock.RealClock{},
		patch:   k.informers.patch,
		network: k.network,

		homeThroughTunnel: options.HomeThroughTunnel,

		warnings:  warnings,
		moves:     rate.NewLimiter(movesPerSecond, 1),
		reachable: k.node.reachable,
		homeAllowed: func() bool {
			vn := k.informers.virtualNode()
			return vn != nil && vn.Spec.APIAccess != v1alpha1.APIAccessDisabled
		},
		offeredNode: func() string {
			if vn := k.informers.virtualNode(); vn != nil {
				return vn.Spec.OfferedNode
			}
			return ""
		},
		queue: newQueue(),
	}
	return k, k.informers.start(ctx, handlers{
		pods: k.pods.localEvents(),
		virtualNode: func() {
			k.leftovers.nodesAre(k.informers.nodes(options.RemoteClusterID))
			k.node.sync()
			k.pods.repatch()
			if k.network.changed() {
				k.pods.enqueueAll()
				k.reflected.enqueueAll()
			}
			k.remap()
		},
		maps:     k.remap,
		nodeGone: k.node.again,
		mapped: func(address string) {
			if options.HomeThroughTunnel && sameAddress(address, home.Host) {
				k.pods.enqueueAll()
			}
			k.reflected.enqueueEndpoints(address)
		},
	})
}

// work runs the controllers, once there is something to work with, and no other
// virtual kubelet of the node does: two would fight over it, and over its pods.
func (k *kubelet) work(ctx context.Context, options *Options, clients *clients) error {
	if !cache.WaitForCacheSync(ctx.Done(), k.informers.synced) {
		return ctx.Err()
	}
	if k.informers.virtualNode() == nil {
		return fmt.Errorf("there is no VirtualNode %s in namespace %s to make the node %s from", options.VirtualNode, options.Namespace, options.NodeName)
	}
	lock, err := newLock(ctx, clients.core, k.informers.virtualNode())
	if err != nil {
		return err
	}
	var failed error
	err = leader.Lead(ctx, lock, terms, func(ctx context.Context) { failed = k.lead(ctx, clients) })
	if err != nil {
		return err
	}
	return failed
}

// lead runs the controllers of the one virtual kubelet that does.
func (k *kubelet) lead(ctx context.Context, clients *clients) error {
	// The twins are watched while the provider is being checked.
	if err := k.sync(ctx); err != nil {
		return err
	}
	nodes, err := k.nodeController(k.node.start(ctx), clients)
	if err != nil {
		return fmt.Errorf("making the node controller: %w", err)
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Run(ctx) })
	group.Go(func() error { k.pods.run(ctx); return nil })
	group.Go(func() error { k.node.run(ctx); return nil })
	group.Go(func() error { k.reflected.run(ctx); return nil })
	group.Go(func() error { k.leftovers.run(ctx); return nil })
	group.Go(func() error { k.reflected.served.Run(ctx); return nil })
	group.Go(func() error { return k.follow(ctx) })
	return group.Wait()
}

// sync watches the twins of the NamespaceMap, and reflects into them.
func (k *kubelet) sync(ctx context.Context) error {
	if err := k.twins.sync(ctx); err != nil {
		return err
	}
	return k.reflected.sync(ctx)
}

// remap has the twins, and what is copied into them, looked at again.
func (k *kubelet) remap() {
	select {
	case k.remapped <- struct{}{}:
	default:
	}
}

// follow keeps the watched twins in line with the NamespaceMap, and what is
// copied into them with the VirtualNodes.
func (k *kubelet) follow(ctx context.Context) error {
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

func (k *kubelet) serve(ctx context.Context, options *Options, clients *clients, listener net.Listener, auth *server.Auth) error {
	certificate, err := server.Certificate(options.CertFile, options.KeyFile, options.NodeName, net.ParseIP(options.NodeIP))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	read := server.NewReadVolumes(clients.remote.Federation.FederationV1alpha1().RESTClient())
	volumes := server.NewVolumes(known{k.pods}, read, clock.RealClock{}, klog.FromContext(ctx))
	return server.Serve(ctx, listener, certificate, server.New(server.Config{
		NodeName: options.NodeName,
		Pods:     known{k.pods},
		Provider: clients.provider,
		Auth:     auth,
		Metrics:  volumes.Handler(legacyregistry.DefaultGatherer),
		Volumes:  volumes,
		Usage: server.NewUsage(known{k.pods}, clients.remote.Metrics, labels.SelectorFromSet(k.pods.to.Labels()).String(),
			clock.RealClock{}, klog.FromContext(ctx)).Handler(),
		Ready: func() error {
			if !k.informers.synced() {
				return errors.New("this cluster's pods, VirtualNode, NamespaceMap and AddressMappings are not known yet")
			}
			return nil
		},
		Profiling: options.Profiling,
	}))
}
