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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// readyDelay and stepDelay are the delays after which a change on the provider is reconciled, so that
	// successive changes are written together. stepDelay is for remote pods that are not ready.
	readyDelay = 10 * time.Millisecond
	stepDelay  = 100 * time.Millisecond
	// namespaceGrace is the age of a pod from which its status reports a missing remote namespace.
	namespaceGrace = 2 * time.Second
	// evictionGrace is the time after which a pod that ran fails, unless it is evicted, when its namespace is
	// unoffloaded.
	evictionGrace = 30 * time.Second

	// unobservedCheck is the time between two live reads of a shadow pod that was deleted before it was
	// observed.
	unobservedCheck = 2 * time.Second
	// unobservedGrace is the time after which a created shadow pod that was not observed is read live.
	unobservedGrace = 10 * time.Second
	// leavingCheck is the time between two reconciles of a pod whose remote namespace is obsolete.
	leavingCheck = 10 * time.Second
	// conflictRetry is the time between two attempts to create a shadow pod whose name is taken: no event
	// reports that the name is free again.
	conflictRetry = 30 * time.Second

	// movesPerSecond is the rate at which statuses are written of which only the address of the virtual kubelet
	// has changed.
	movesPerSecond = 50

	firstRetry, lastRetry = 100 * time.Millisecond, 30 * time.Second
	podWorkers            = 16
)

// NewWarnings returns the limit of the warnings of a provider that a virtual kubelet records.
func NewWarnings() flowcontrol.PassiveRateLimiter {
	const perSecond, atOnce = 20, 500
	return flowcontrol.NewTokenBucketPassiveRateLimiter(perSecond, atOnce)
}

// Namespaces are the remote namespaces of the node.
type Namespaces interface {
	// State returns the state of a local namespace.
	State(local string) remotens.State
	// All returns the states of all local namespaces that have one.
	All() map[string]remotens.State
}

// Config is the configuration of a Controller.
type Config struct {
	// NodeName is the virtual node, NodeIP the address of its virtual kubelet, and Provider the name of the
	// ForeignCluster.
	NodeName, NodeIP, Provider string
	// To is the destination of shadow pods.
	To translate.Destination
	// Local is the client of this cluster, and Remote are those of the provider.
	Local  kubernetes.Interface
	Remote remotens.Clients
	// Lister lists the pods of the node.
	Lister     corev1listers.PodLister
	Namespaces Namespaces
	Recorder   record.EventRecorder
	Metrics    *Metrics
	Clock      clock.PassiveClock
	// Patch returns the patch of the VirtualNode for shadow pods; nil if there is none.
	Patch func() *v1alpha1.OffloadingPatch
	// Network translates the addresses of remote pods; nil if they are the same in both clusters.
	Network *Network
	// Warnings bounds the warnings of the provider that are recorded, for all objects together.
	Warnings flowcontrol.PassiveRateLimiter
	// Reachable reports whether the provider is reachable: otherwise its cached pods are outdated.
	Reachable func() bool
	// APIAccessAllowed reports whether remote pods may use the API server of this cluster now; nil means
	// that they may.
	APIAccessAllowed func() bool
	// ConsumerAPIThroughTunnel means that the provider reaches that server by an AddressMapping.
	ConsumerAPIThroughTunnel bool
	// Audience is requested for tokens of pods that name none; empty leaves that to the API server.
	Audience string
	// OfferedNode returns the node of the provider's offer that the virtual node represents; nil if there
	// is none.
	OfferedNode func() string
}

// Controller creates, updates and deletes the shadow pods of the pods of one virtual node, and writes the
// statuses of the pods.
type Controller struct {
	Config
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	states states
	// refusedAccounts are the service accounts whose token was refused recently.
	refusedAccounts refusedAccounts
	// moves limits the writes described at movesPerSecond.
	moves *rate.Limiter
	// lastPatch and lastAllowed are the patch and APIAccessAllowed at the last call of Refresh.
	lastPatch   *v1alpha1.OffloadingPatch
	lastAllowed bool
	// tidying is held by tidy, and tidied is the time at which it last requested deletions.
	tidying sync.Mutex
	tidied  time.Time
}

// New returns a controller. Run starts it.
func New(config Config) *Controller {
	return &Controller{Config: config, queue: newQueue(), moves: rate.NewLimiter(movesPerSecond, 1)}
}

func newQueue() workqueue.TypedRateLimitingInterface[cache.ObjectName] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "pods"})
}

// Run reconciles pods until the context ends.
func (c *Controller) Run(ctx context.Context) {
	var workers wait.Group
	for range podWorkers {
		workers.StartWithContext(ctx, func(ctx context.Context) {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
}

func (c *Controller) next(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", key))
	if err := c.reconcile(ctx, key); err != nil {
		if ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Reconciling a pod failed, retrying")
		}
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}

// Events returns the functions that a remote namespace calls.
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
					// No event of a local pod would drop it.
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

// LocalEvents returns the handler of the local pods of the node. It also enqueues a pod whose status another client
// has written.
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

// EnqueueNamespace enqueues all pods of a local namespace.
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

// EnqueueAll enqueues all pods, for example when the provider is reachable again.
func (c *Controller) EnqueueAll() {
	for namespace := range c.Namespaces.All() {
		c.EnqueueNamespace(namespace)
	}
}

// Refresh enqueues all pods when the patch or APIAccessAllowed has changed. It must not be called
// concurrently.
func (c *Controller) Refresh() {
	patch, allowed := c.Patch(), c.APIAccessAllowed != nil && c.APIAccessAllowed()
	if !equality.Semantic.DeepEqual(c.lastPatch, patch) || c.lastAllowed != allowed {
		c.lastPatch, c.lastAllowed = patch, allowed
		c.EnqueueAll()
	}
}

// shadow returns the shadow pod of a key: the observed one, otherwise the one that has just been
// created.
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

// setReadyAt sets the time at which the remote pod became ready, unless it is set; zero means that it is not ready.
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
