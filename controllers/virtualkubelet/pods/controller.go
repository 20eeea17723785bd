// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/queue"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// readyDelay and stepDelay are the delays before a pod is reconciled after its remote pod changed, so that successive
	// changes cause one status write. stepDelay is for remote pods that are not ready.
	readyDelay = 10 * time.Millisecond
	stepDelay  = 100 * time.Millisecond
	// namespaceGrace is the age at which the status of a pod starts to report a missing remote namespace.
	namespaceGrace = 2 * time.Second
	// evictionGrace is the time after the unoffloading of a namespace at which its pods that have run become Failed,
	// unless they were evicted before.
	evictionGrace = 30 * time.Second

	// unobservedCheck is the time between two reads, from the provider's API server, of a shadow pod that was deleted
	// before the cache received it, and the time after which a pod is retried that waits for the deletion of finished
	// shadow pods.
	unobservedCheck = 2 * time.Second
	// unobservedGrace is the age at which a shadow pod that the cache has not received is read from the provider's API
	// server.
	unobservedGrace = 10 * time.Second
	// leavingCheck is the time between two reconciles of a pod that is being deleted and whose namespace was unoffloaded.
	leavingCheck = 10 * time.Second
	// conflictRetry is the time between two attempts to create a shadow pod whose name is taken. Shadow pods of other
	// virtual nodes are not watched, so no event reports that the name is free again.
	conflictRetry = 30 * time.Second

	// movesPerSecond is the maximum number per second of status writes that change only the address of the virtual
	// kubelet.
	movesPerSecond = 50
	// statusesPerSecond is the maximum number per second of status writes, after statusesAtOnce ones, so that a provider
	// that changes the statuses of its pods all the time does not load the local API server. The start of a pod causes
	// about four writes, so 1000 pods can start at once, and 100 per second for 30 seconds.
	statusesPerSecond, statusesAtOnce = 100, 10_000

	podWorkers = 16
)

// NewWarnings returns the rate limit for warnings of the provider that a virtual kubelet records on local objects.
func NewWarnings() flowcontrol.PassiveRateLimiter {
	const perSecond, atOnce = 20, 500
	return flowcontrol.NewTokenBucketPassiveRateLimiter(perSecond, atOnce)
}

// Namespaces returns the states of local namespaces.
type Namespaces interface {
	// State returns the state of a local namespace. If the NamespaceMap does not have the namespace, only Message is set.
	State(local string) remotens.State
	// All returns the states of all local namespaces in the NamespaceMap, by name.
	All() map[string]remotens.State
}

// Config has the clients, caches and callbacks of a Controller.
type Config struct {
	// NodeName is the name of the virtual node, NodeIP the address of its virtual kubelet, and Provider the name of the
	// provider's ForeignCluster.
	NodeName, NodeIP, Provider string
	// To has the names of the consumer, the provider and the node, which shadow pods are labeled with, and the endpoint of
	// the consumer's API server.
	To translate.Destination
	// Local is the client of the local cluster, and Remote has the clients of the provider.
	Local  kubernetes.Interface
	Remote remotens.Clients
	// Lister lists the local pods that are bound to the node.
	Lister     corev1listers.PodLister
	Namespaces Namespaces
	Recorder   record.EventRecorder
	Metrics    *Metrics
	Clock      clock.PassiveClock
	// Patch returns the VirtualNode's offloading patch, which is applied to shadow pods; nil if it has none.
	Patch func() *v1alpha1.OffloadingPatch
	// Network translates addresses between the clusters; nil if addresses are the same in both.
	Network *Network
	// Warnings limits the rate of recorded warnings of the provider. It is shared with the warnings about reflected
	// objects.
	Warnings flowcontrol.PassiveRateLimiter
	// Reachable reports whether the provider is reachable. While it is not, caches of its objects are outdated.
	Reachable func() bool
	// APIAccessAllowed reports whether remote pods are currently permitted to use the consumer's API server; nil means
	// always.
	APIAccessAllowed func() bool
	// ConsumerAPIServerThroughTunnels means that the provider reaches the consumer's API server at an address from an
	// AddressMapping.
	ConsumerAPIServerThroughTunnels bool
	// Audience is the audience of tokens for projected volumes that specify none. Empty means the API server's default.
	Audience string
	// OfferedNode returns the name of the provider's node that the virtual node represents, or empty if it represents the
	// offer as a whole. Nil means always empty.
	OfferedNode func() string
}

// Controller creates, updates and deletes the shadow pods of the pods that are bound to one virtual node, and writes
// the statuses of these pods.
type Controller struct {
	Config
	queue  *queue.Controller[cache.ObjectName]
	states states
	// refusedAccounts has the service accounts for which the local API server refused to issue a token within
	// accountPause.
	refusedAccounts refusedAccounts
	// moves limits status writes that change only the address of the virtual kubelet.
	moves *rate.Limiter
	// statuses limits all status writes.
	statuses *rate.Limiter
	// lastPatch and lastAllowed are the results of Patch and APIAccessAllowed at the last call of Refresh.
	lastPatch   *v1alpha1.OffloadingPatch
	lastAllowed bool
	// tidying is held while tidy deletes finished shadow pods. tidied is when tidy last requested deletions.
	tidying sync.Mutex
	tidied  time.Time
}

// New returns a controller, which starts with Run.
func New(config Config) *Controller {
	c := &Controller{
		Config: config, moves: rate.NewLimiter(movesPerSecond, 1),
		statuses: rate.NewLimiter(statusesPerSecond, statusesAtOnce),
	}
	c.queue = c.newQueue()
	return c
}

func (c *Controller) newQueue() *queue.Controller[cache.ObjectName] {
	return queue.New("pods", podWorkers, func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
		// reconcile enqueues the pod again itself, also if it fails.
		return 0, c.reconcile(ctx, key)
	})
}

// Run reconciles the enqueued pods until the context ends, and returns after the last worker.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

// Events returns the callbacks for changes in remote namespaces.
func (c *Controller) Events() remotens.Events {
	return remotens.Events{
		Shadow: func(key cache.ObjectName) {
			c.states.change(key, func(s *podState) { s.shadow.created = nil })
			c.queue.Add(key)
		},
		Pod: func(key cache.ObjectName, pod *translate.RemotePod) {
			switch {
			case pod == nil:
				c.setReadyAt(key, time.Time{})
				c.queue.Add(key)
			case isReady(&pod.Status):
				c.setReadyAt(key, c.Clock.Now())
				if _, err := c.Lister.Pods(key.Namespace).Get(key.Name); err != nil {
					// The local pod was deleted, so no later event removes this state.
					c.setReadyAt(key, time.Time{})
				}
				c.queue.AddAfter(key, readyDelay)
			default:
				c.setReadyAt(key, time.Time{})
				c.queue.AddAfter(key, stepDelay)
			}
		},
		Warning: c.warn,
		Tokens:  func(key cache.ObjectName) { c.queue.AddAfter(key, stepDelay) },
		Freed:   func() { c.roomFreed(overQuota) },
		Tidied:  func() { c.roomFreed(tooManyFinished) },
		Synced:  c.EnqueueNamespace,
	}
}

// LocalEvents returns the event handler for the local pods of the node. A pod is also enqueued when another client
// writes its status, so that the controller overwrites that status.
func (c *Controller) LocalEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.Metrics.pods.Inc()
			if pod, ok := obj.(*corev1.Pod); ok {
				c.queue.Add(cache.MetaObjectToName(pod))
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok1 := before.(*corev1.Pod)
			pod, ok2 := after.(*corev1.Pod)
			switch {
			case !ok1 || !ok2 || old.ResourceVersion == pod.ResourceVersion:
			case old.UID != pod.UID:
				c.states.dropLocal(cache.MetaObjectToName(pod))
				c.queue.Add(cache.MetaObjectToName(pod))
			case gracePeriod(old) != gracePeriod(pod):
				c.queue.Add(cache.MetaObjectToName(pod))
			default:
				c.queue.AddAfter(cache.MetaObjectToName(pod), readyDelay)
			}
		},
		DeleteFunc: func(obj any) {
			c.Metrics.pods.Dec()
			if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				c.states.dropLocal(key)
				c.queue.Add(key)
			}
		},
	}
}

// EnqueueNamespace enqueues all pods of a local namespace, and the keys of all shadow pods in its remote namespace.
func (c *Controller) EnqueueNamespace(namespace string) {
	// A lister of an informer returns no errors.
	pods, _ := c.Lister.Pods(namespace).List(labels.Everything())
	for _, pod := range pods {
		c.queue.Add(cache.MetaObjectToName(pod))
	}
	if t := c.Namespaces.State(namespace).Namespace; t != nil {
		for _, key := range t.Shadows.GetStore().ListKeys() {
			if name, err := cache.ParseObjectName(key); err == nil {
				c.queue.Add(t.Key(name.Name))
			}
		}
	}
}

// EnqueueAll enqueues the pods of all offloaded namespaces, for example when the provider is reachable again.
func (c *Controller) EnqueueAll() {
	for namespace := range c.Namespaces.All() {
		c.EnqueueNamespace(namespace)
	}
}

// Refresh enqueues all pods if the result of Patch or APIAccessAllowed changed since the last call. It must not be
// called concurrently.
func (c *Controller) Refresh() {
	patch, allowed := c.Patch(), c.APIAccessAllowed != nil && c.APIAccessAllowed()
	if !equality.Semantic.DeepEqual(c.lastPatch, patch) || c.lastAllowed != allowed {
		c.lastPatch, c.lastAllowed = patch, allowed
		c.EnqueueAll()
	}
}

// shadow returns the shadow pod of a local pod from the cache, or the one that was just created and is not cached yet;
// nil if there is none.
func (c *Controller) shadow(t *remotens.Namespace, key cache.ObjectName) *v1alpha1.ShadowPod {
	if shadow := t.Shadow(key.Name); shadow != nil {
		return shadow
	}
	if created := c.states.read(key).shadow.created; created != nil && created.Namespace == t.Remote {
		return created.ShadowPod
	}
	c.states.change(key, func(s *podState) { s.shadow.deleted = nil })
	return nil
}

// setReadyAt sets the time at which a remote pod became ready, unless that time is set already. If at is zero, it
// clears the time, for a remote pod that is not ready.
func (c *Controller) setReadyAt(key cache.ObjectName, at time.Time) {
	c.states.change(key, func(s *podState) {
		if at.IsZero() || s.local.readyAt.IsZero() {
			s.local.readyAt = at
		}
	})
}

func isReady(status *corev1.PodStatus) bool {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
