// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

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
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// readyDelay and stepDelay are how long a change on the provider waits for
	// the next one, so that both are written at once: nobody waits for the steps
	// on the way to ready.
	readyDelay = 10 * time.Millisecond
	stepDelay  = 100 * time.Millisecond
	// twinGrace is how long a new pod may wait for its namespace on the provider
	// before it is told so.
	twinGrace = 2 * time.Second
	// homePatience is how long a pod that ran may wait to be evicted once its
	// namespace does not extend to the provider any more, before it has failed.
	homePatience = 30 * time.Second

	// lookAgain is how long after the deletion of a shadow pod that was never
	// seen it is looked for, and again.
	lookAgain = 2 * time.Second
	// unseenPatience is how long one that was created is believed to be there
	// without having been seen.
	unseenPatience = 10 * time.Second

	// So many warnings a second are passed on, after a burst of so many.
	warningsPerSecond, warningsAtOnce = 20, 500

	// movesPerSecond is how many pods a second are told that the virtual kubelet
	// is elsewhere.
	movesPerSecond = 50

	firstRetry, lastRetry = 100 * time.Millisecond, 30 * time.Second
	podWorkers            = 16
)

// Pods keeps the pods of one virtual node and their shadow pods in line.
type Pods struct {
	nodeName, nodeIP, provider string
	to                         translate.Destination
	local                      kubernetes.Interface
	remote                     RemoteClients
	lister                     corev1listers.PodLister
	twins                      *twins
	recorder                   record.EventRecorder
	metrics                    *Metrics
	clock                      clock.PassiveClock
	// patch is what the VirtualNode gives to the pods on the provider; nil if
	// nothing.
	patch func() *v1alpha1.OffloadingPatch
	// network knows what the addresses of pods there are called here; nil means
	// that they are the same.
	network *network
	// warnings bounds what the provider can have told, of everything together.
	warnings flowcontrol.PassiveRateLimiter
	// reachable tells whether the provider answers: while it does not, what is
	// known of its pods is not news.
	reachable func() bool
	// homeAllowed tells whether pods may talk to their home from there now; nil
	// means that they may.
	homeAllowed func() bool
	// homeThroughTunnel says that the home is reached from there by what the
	// provider calls its address.
	homeThroughTunnel bool
	// homeAudience is what a token is asked for with whose pod names no audience;
	// empty leaves that to the API server.
	homeAudience string
	// offeredNode is the node of the provider's offer that this one stands for;
	// nil where none does.
	offeredNode func() string

	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// states are what is remembered of the pods.
	states states
	// refusedAccounts are the service accounts whose token was refused a moment ago.
	refusedAccounts refusedAccounts
	// moves bounds how many statuses a second are written of which nothing has changed but the address of
	// the virtual kubelet.
	moves *rate.Limiter
	// patched is the patch that everything was looked at with last, and allowed
	// whether pods could talk to their home then.
	patched *v1alpha1.OffloadingPatch
	allowed bool
	// tidying is held while finished shadow pods are being deleted, and tidied is
	// when that was last.
	tidying sync.Mutex
	tidied  time.Time
}

func newQueue() workqueue.TypedRateLimitingInterface[cache.ObjectName] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "pods"})
}

// run works until the context ends.
func (p *Pods) run(ctx context.Context) {
	var workers wait.Group
	for range podWorkers {
		workers.StartWithContext(ctx, func(ctx context.Context) {
			for p.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	workers.Wait()
}

func (p *Pods) next(ctx context.Context) bool {
	key, quit := p.queue.Get()
	if quit {
		return false
	}
	defer p.queue.Done(key)
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", key))
	if err := p.reconcile(ctx, key); err != nil {
		if ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Pod is not in line with its shadow pod, trying again")
		}
		p.queue.AddRateLimited(key)
		return true
	}
	p.queue.Forget(key)
	return true
}

// twinEvents are how the pods follow what happens on the provider.
func (p *Pods) twinEvents() twinEvents {
	return twinEvents{
		shadow: func(key cache.ObjectName) {
			p.states.change(key, func(s *podState) { s.shadow.created = nil })
			p.queue.Add(key)
		},
		pod: func(key cache.ObjectName, pod *translate.RemotePod) {
			switch {
			case pod == nil:
				p.setReadyAt(key, time.Time{})
				p.queue.Add(key)
			case isReady(&pod.Status):
				p.setReadyAt(key, p.clock.Now())
				if _, err := p.lister.Pods(key.Namespace).Get(key.Name); err != nil {
					// No event of a local pod would drop it.
					p.setReadyAt(key, time.Time{})
				}
				p.queue.AddAfter(key, readyDelay)
			default:
				p.setReadyAt(key, time.Time{})
				p.queue.AddAfter(key, stepDelay)
			}
		},
		warning: p.warn,
		tokens:  func(key cache.ObjectName) { p.queue.AddAfter(key, stepDelay) },
		freed:   func() { p.roomFreed(overQuota) },
		tidied:  func() { p.roomFreed(tooManyFinished) },
		synced:  p.enqueueNamespace,
	}
}

// localEvents follow the pods of the node, also what others write into their
// status.
func (p *Pods) localEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			p.metrics.pods.Inc()
			if pod, ok := obj.(*corev1.Pod); ok {
				p.queue.Add(cache.MetaObjectToName(pod))
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok1 := before.(*corev1.Pod)
			pod, ok2 := after.(*corev1.Pod)
			switch {
			case !ok1 || !ok2 || old.ResourceVersion == pod.ResourceVersion:
			case old.UID != pod.UID:
				p.states.dropLocal(cache.MetaObjectToName(pod))
				p.queue.Add(cache.MetaObjectToName(pod))
			case gracePeriod(old) != gracePeriod(pod):
				p.queue.Add(cache.MetaObjectToName(pod))
			default:
				p.queue.AddAfter(cache.MetaObjectToName(pod), readyDelay)
			}
		},
		DeleteFunc: func(obj any) {
			p.metrics.pods.Dec()
			if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				p.states.dropLocal(key)
				p.queue.Add(key)
			}
		},
	}
}

// enqueueNamespace looks again at everything of a local namespace.
func (p *Pods) enqueueNamespace(namespace string) {
	// A lister of an informer returns no errors.
	pods, _ := p.lister.Pods(namespace).List(labels.Everything())
	for _, pod := range pods {
		p.queue.Add(cache.MetaObjectToName(pod))
	}
	if t := p.twins.extent(namespace).twin; t != nil {
		for _, key := range t.shadows.GetStore().ListKeys() {
			if name, err := cache.ParseObjectName(key); err == nil {
				p.queue.Add(t.key(name.Name))
			}
		}
	}
}

// enqueueAll looks again at everything, for a provider that has come back.
func (p *Pods) enqueueAll() {
	for namespace := range p.twins.all() {
		p.enqueueNamespace(namespace)
	}
}

// repatch looks again at everything once the patch has changed, or whether pods
// may talk to their home. It is called by one goroutine at a time.
func (p *Pods) repatch() {
	patch, allowed := p.patch(), p.homeAllowed != nil && p.homeAllowed()
	if !equality.Semantic.DeepEqual(p.patched, patch) || p.allowed != allowed {
		p.patched, p.allowed = patch, allowed
		p.enqueueAll()
	}
}

// shadow is the shadow pod of a key as far as it is known: it was seen, or has
// just been created.
func (p *Pods) shadow(t *twin, key cache.ObjectName) *v1alpha1.ShadowPod {
	if shadow := t.shadow(key.Name); shadow != nil {
		return shadow
	}
	if created := p.states.read(key).shadow.created; created != nil && created.Namespace == t.remote {
		return created.ShadowPod
	}
	p.states.change(key, func(s *podState) { s.shadow.deleted = nil })
	return nil
}

// setReadyAt sets since when the remote pod is ready, unless it already is; zero means that it is not.
func (p *Pods) setReadyAt(key cache.ObjectName, at time.Time) {
	p.states.change(key, func(s *podState) {
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
