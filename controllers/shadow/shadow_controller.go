// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow keeps on a provider what shadow objects stand for, by itself
// and also while the consumer is away: the pods of ShadowPods and the
// EndpointSlices of ShadowEndpointSlices. A pod that is lost is made again, and
// one that has finished never runs again; endpoints are ready only while the
// consumer can be reached.
//
// What counts as finished: a pod of restart policy Never or OnFailure whose
// phase is Succeeded or Failed, whatever the reason. A pod of restart policy
// Always does not finish; when the kubelet gives it up, because it was evicted
// or its node shut down, another one takes its place, after a delay that grows
// each time.
package shadow

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const (
	// workers create pods side by side: each waits for the API most of the time.
	workers = 16
	// The delay before a pod that was refused or given up is made again.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// cacheLag is how long a pod that was just created may take to be seen.
	cacheLag = 10 * time.Second
	// abandoned is how long a pod that was deleted by force may still tell how
	// it ended.
	abandoned = time.Minute
	// unread is how long a shadow pod stays that tells how its pod ended, for a
	// consumer that does not say that it has read it.
	unread = time.Minute
)

// Controller runs the pods of ShadowPods.
type Controller struct {
	kube       kubernetes.Interface
	federation versioned.Interface
	events     record.EventRecorder
	clock      clock.PassiveClock
	backoff    *flowcontrol.Backoff
	// placement says where the pods of a consumer run.
	placement func(foreignCluster, offeredNode string) Placement

	shadows    listers.ShadowPodLister
	namespaces corelisters.NamespaceLister
	pods       corelisters.PodLister
	// podInformers caches the pods of shadow pods alone, and only what this
	// controller reads of them.
	podInformers kubeinformers.SharedInformerFactory
	queue        *queue.Controller[cache.ObjectName]

	// created holds the pods that were created and not seen yet.
	mutex   sync.Mutex
	created map[cache.ObjectName]creation
}

// Placement is where a pod runs.
type Placement struct {
	// Labels are those of the nodes that it may run on; none allow all.
	Labels map[string]string
	// Node is where it runs rather than elsewhere; empty prefers none.
	Node string
}

// creation is a pod that was created and not seen yet.
type creation struct {
	uid types.UID
	at  time.Time
}

// New makes the controller and asks the informers for what it reads. A pod runs
// where placement says for the ForeignCluster of its consumer and the node that
// was offered to it, if it names one.
func New(kube kubernetes.Interface, federation versioned.Interface,
	kubeInformers kubeinformers.SharedInformerFactory, federationInformers externalversions.SharedInformerFactory,
	events record.EventRecorder, placement func(foreignCluster, offeredNode string) Placement,
) (*Controller, error) {
	return newController(kube, federation, kubeInformers, federationInformers, events, placement, clock.RealClock{},
		flowcontrol.NewBackOff(minBackoff, maxBackoff))
}

func newController(kube kubernetes.Interface, federation versioned.Interface,
	kubeInformers kubeinformers.SharedInformerFactory, federationInformers externalversions.SharedInformerFactory,
	events record.EventRecorder, placement func(foreignCluster, offeredNode string) Placement, clock clock.PassiveClock, backoff *flowcontrol.Backoff,
) (*Controller, error) {
	podInformers := kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0,
		kubeinformers.WithTransform(trim),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.LabelOrigin }))
	shadows, pods := federationInformers.Federation().V1alpha1().ShadowPods(), podInformers.Core().V1().Pods()
	c := &Controller{
		kube:         kube,
		federation:   federation,
		events:       events,
		clock:        clock,
		backoff:      backoff,
		placement:    placement,
		shadows:      shadows.Lister(),
		namespaces:   kubeInformers.Core().V1().Namespaces().Lister(),
		pods:         pods.Lister(),
		podInformers: podInformers,
		created:      map[cache.ObjectName]creation{},
	}
	c.queue = queue.New("shadow-pod", workers, c.reconcile)
	if _, err := shadows.Informer().AddEventHandler(c.queue.Handle(queue.ObjectKeys)); err != nil {
		return nil, err
	}
	// The lister of namespaces needs its informer to be running.
	kubeInformers.Core().V1().Namespaces().Informer()
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.podChanged,
		UpdateFunc: func(old, current any) {
			if turned(old.(*corev1.Pod), current.(*corev1.Pod)) {
				c.podChanged(current)
			}
		},
		DeleteFunc: c.podChanged,
	})
	return c, err
}

// Run works until the context ends. The shared informers are synced before.
func (c *Controller) Run(ctx context.Context) {
	c.podInformers.StartWithContext(ctx)
	defer c.podInformers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.podInformers.Core().V1().Pods().Informer().HasSynced) {
		return
	}
	c.queue.Run(ctx)
}

// turned tells whether a pod changed in what decides about its life, or in what it
// was given and has given back.
func turned(old, current *corev1.Pod) bool {
	return old.UID != current.UID || podspec.Finished(old) != podspec.Finished(current) ||
		old.DeletionTimestamp.IsZero() != current.DeletionTimestamp.IsZero() ||
		ptr.Deref(old.DeletionGracePeriodSeconds, 0) != ptr.Deref(current.DeletionGracePeriodSeconds, 0) ||
		len(old.Finalizers) != len(current.Finalizers) ||
		old.Annotations[annotationMirrored] != current.Annotations[annotationMirrored] ||
		(old.Status.AllocatedResources == nil) != (current.Status.AllocatedResources == nil)
}

// podChanged looks at the shadow pod of the same name. What was created has
// been seen by then.
func (c *Controller) podChanged(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	key := cache.MetaObjectToName(pod)
	c.mutex.Lock()
	if c.created[key].uid == pod.UID {
		delete(c.created, key)
	}
	c.mutex.Unlock()
	c.queue.Add(key)
}

// expect remembers a pod until it is seen.
func (c *Controller) expect(key cache.ObjectName, uid types.UID) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.created[key] = creation{uid: uid, at: c.clock.Now()}
}

// expected tells whether a pod was created that has not been seen yet. Should
// it have come and gone unseen, that is forgotten after a while.
func (c *Controller) expected(key cache.ObjectName) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	creation, ok := c.created[key]
	if ok && c.clock.Since(creation.at) >= cacheLag {
		delete(c.created, key)
		return false
	}
	return ok
}
