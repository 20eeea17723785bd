// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/virtualkubelet/queue"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned"
)

// reflectionWorkers is the number of objects that are reconciled concurrently.
const reflectionWorkers = 4

// Namespaces are the remote namespaces of the node.
type Namespaces interface {
	// All returns the states of all local namespaces that have one.
	All() map[string]remotens.State
}

// Config is what a Controller works with.
type Config struct {
	// Provider is the name of the ForeignCluster.
	Provider string
	// To is the destination of reflected objects.
	To translate.Destination
	// Local is the client of this cluster, and Remote that of the provider.
	Local, Remote kubernetes.Interface
	// LocalDynamic and RemoteDynamic are for configured kinds, and the former for ServiceExports.
	LocalDynamic, RemoteDynamic dynamic.Interface
	// RemoteFederation writes ShadowEndpointSlices, whose endpoints are translated by View.
	RemoteFederation versioned.Interface
	View             translate.View
	// Served watches whether the local cluster serves ServiceExports; nil means that no Service is exported.
	Served     *mcs.Served
	Namespaces Namespaces
	// VirtualNode returns the VirtualNode with the reflection policy; nil while there is none.
	VirtualNode func() *v1alpha1.VirtualNode
	Recorder    record.EventRecorder
	Metrics     *Metrics
	// Reachable reports whether the provider is reachable. Otherwise nothing is reconciled.
	Reachable func() bool
	// Warnings limits the recorded warnings of the provider, including those about pods.
	Warnings flowcontrol.PassiveRateLimiter
}

// Controller reflects the local objects that the pods of offloaded namespaces use into the remote namespaces.
type Controller struct {
	Config
	kinds []kind
	queue *queue.Controller[reflectionKey]

	mu sync.RWMutex
	// namespaces are the namespaces that are reflected, by their local name.
	namespaces map[string]reflectedNamespace
	// policies are the last observed policies; nil before the first.
	policies *v1alpha1.VirtualNodeReflection
	// networked reports whether the pods of both clusters reach each other.
	networked bool
	// classes are the classes that reflected objects may name.
	classes translate.Classes
	// configured are the kinds in addition to the built-in ones.
	configured []kind
	// lastEvents has the last event about an object, by key.
	lastEvents syncMap[reflectionKey, string]
}

// reflectionKey identifies a local object.
type reflectionKey struct {
	resource string
	cache.ObjectName
}

// String returns the key for logs.
func (k reflectionKey) String() string { return k.resource + " " + k.ObjectName.String() }

// reflectedNamespace is an offloaded namespace and its remote namespace.
type reflectedNamespace struct {
	remote string
	// kinds are the reflectors, by resource, and stops ends each.
	kinds map[string]reflector
	stops map[string]context.CancelFunc
}

// reflector reflects the objects of one kind in one namespace.
type reflector interface {
	// run fills the caches and keeps them until the context ends.
	run(ctx context.Context)
	// synced reports whether the caches are filled.
	synced() bool
	// keys returns the keys of all objects of either cluster.
	keys() []reflectionKey
	// original returns the local object of the reflected one with this name and UID; nil if there
	// is none.
	original(copied string, uid types.UID) runtime.Object
	// reconcile creates, updates or deletes the reflected object of one object. It returns the time after which it
	// should be called again; zero means that it should not.
	reconcile(ctx context.Context, key reflectionKey) (time.Duration, error)
}

// New returns a controller. Run starts it.
func New(config Config) *Controller {
	c := &Controller{Config: config, kinds: builtin(), namespaces: map[string]reflectedNamespace{}}
	c.queue = queue.New("reflection", reflectionWorkers, c.reconcile)
	return c
}

// Sync starts and stops reflectors, so that exactly the namespaces with a ready remote namespace are reflected. In a
// remote namespace that is being deleted, nothing is changed. A change of the policy enqueues all objects.
func (c *Controller) Sync(ctx context.Context) error {
	states := c.Namespaces.All()
	node := c.VirtualNode()
	c.mu.Lock()
	defer c.mu.Unlock()
	if node != nil {
		c.setPolicies(node)
	}
	if c.policies == nil {
		return nil
	}
	for namespace, running := range c.namespaces {
		if e := states[namespace]; !e.Ready || e.Namespace == nil || e.Namespace.Remote != running.remote {
			for _, stop := range running.stops {
				stop()
			}
			delete(c.namespaces, namespace)
		}
	}
	for namespace, e := range states {
		if !e.Ready || e.Namespace == nil {
			continue
		}
		running, ok := c.namespaces[namespace]
		if !ok {
			running = reflectedNamespace{
				remote: e.Namespace.Remote,
				kinds:  map[string]reflector{},
				stops:  map[string]context.CancelFunc{},
			}
			c.namespaces[namespace] = running
		}
		if err := c.syncKinds(ctx, namespace, running); err != nil {
			return fmt.Errorf("reflecting namespace %s to %s of %s: %w", namespace, running.remote, c.Provider, err)
		}
	}
	return nil
}

// setPolicies reads the policies of a VirtualNode.
func (c *Controller) setPolicies(node *v1alpha1.VirtualNode) {
	c.configured = configuredKinds(node)
	networked := meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionNetworkReady)
	classes := translate.Classes{Ingress: node.Status.IngressClasses, LoadBalancer: node.Status.LoadBalancerClasses}
	if c.policies != nil && equality.Semantic.DeepEqual(
		*c.policies, node.Spec.Reflection,
	) && c.networked == networked &&
		equality.Semantic.DeepEqual(c.classes, classes) {
		return
	}
	c.policies, c.networked, c.classes = &node.Spec.Reflection, networked, classes
	for _, namespace := range c.namespaces {
		for _, one := range namespace.kinds {
			c.enqueue(one)
		}
	}
}

// syncKinds starts and stops the reflectors of a namespace.
func (c *Controller) syncKinds(ctx context.Context, namespace string, running reflectedNamespace) error {
	desired := map[string]kind{}
	for _, kind := range c.configured {
		desired[kind.name] = kind
	}
	for name, one := range running.kinds {
		o, ok := one.(*configured)
		if !ok {
			continue
		}
		kind, stays := desired[name]
		switch {
		case stays && kind.version == o.version:
			if o.ending.Swap(false) {
				c.enqueue(one)
			}
		case stays || o.end():
			// Another version of the kind has the same objects.
			running.stops[name]()
			delete(running.kinds, name)
		default:
			c.enqueue(one)
		}
	}
	c.turn(running)
	for _, kind := range c.kinds {
		if err := c.start(ctx, kind, namespace, running); err != nil {
			return err
		}
	}
	for _, kind := range c.configured {
		if err := c.start(ctx, kind, namespace, running); err != nil {
			return err
		}
	}
	return nil
}

// start starts the reflector of a kind in a namespace, if it does not run.
func (c *Controller) start(ctx context.Context, kind kind, namespace string, running reflectedNamespace) error {
	if running.kinds[kind.name] != nil {
		return nil
	}
	one, err := kind.reflector(kind, c, namespace, running.remote)
	if err != nil {
		return err
	}
	ctx, running.stops[kind.name] = context.WithCancel(ctx)
	running.kinds[kind.name] = one
	one.run(ctx)
	go func() {
		// Events from before both caches were filled were ignored.
		if cache.WaitForCacheSync(ctx.Done(), one.synced) {
			c.enqueue(one)
		}
	}()
	return nil
}

// ended stops the reflector of a kind that is no longer reflected and has no reflected objects.
func (c *Controller) ended(o *configured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := c.namespaces[o.namespace]
	if running.kinds[o.name] == reflector(o) && o.ending.Load() {
		running.stops[o.name]()
		delete(running.kinds, o.name)
	}
}

// Warn records a warning of the provider about a reflected object on the local one, for example that there is no
// address for a load balancer. Warnings limits it.
func (c *Controller) Warn(namespace string, event *corev1.Event) {
	reason, message, ok := translate.Warning(event, c.Provider)
	if !ok || translate.AboutPod(event) {
		return
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	running := c.namespaces[namespace]
	if running.remote != event.Namespace {
		return
	}
	for _, one := range running.kinds {
		if local := one.original(event.InvolvedObject.Name, event.InvolvedObject.UID); local != nil {
			if c.Warnings.TryAccept() {
				c.Recorder.Event(local, corev1.EventTypeWarning, reason, message)
			}
			return
		}
	}
}

// policy returns the policy of a kind.
func (c *Controller) policy(of schema.GroupResource) translate.Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.policies == nil {
		return translate.Policy{}
	}
	return translate.PolicyOf(c.policies, of)
}

// destination returns the destination of reflected objects, with the classes that they may name.
func (c *Controller) destination() translate.Destination {
	c.mu.RLock()
	defer c.mu.RUnlock()
	to := c.To
	to.Classes = c.classes
	return to
}

// Run reconciles objects until the context ends.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

// EnqueueAll enqueues all objects, for example when the provider is reachable again.
func (c *Controller) EnqueueAll() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, namespace := range c.namespaces {
		for _, one := range namespace.kinds {
			c.enqueue(one)
		}
	}
}

func (c *Controller) enqueue(one reflector) {
	for _, key := range one.keys() {
		c.queue.Add(key)
	}
}

// reconcile reconciles one object, if its namespace is reflected and the provider is reachable. A change of these
// enqueues all objects.
func (c *Controller) reconcile(ctx context.Context, key reflectionKey) (time.Duration, error) {
	c.mu.RLock()
	one := c.namespaces[key.Namespace].kinds[key.resource]
	c.mu.RUnlock()
	if one == nil || !one.synced() || !c.Reachable() {
		return 0, nil
	}
	again, err := one.reconcile(ctx, key)
	c.Metrics.passes.WithLabelValues(key.resource).Inc()
	if err != nil {
		c.Metrics.errors.WithLabelValues(key.resource).Inc()
	}
	return again, err
}
