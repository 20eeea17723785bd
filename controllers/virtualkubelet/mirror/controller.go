// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
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
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/virtualkubelet/queue"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned"
)

// reflectionWorkers is the number of objects that are reconciled concurrently.
const reflectionWorkers = 4

// Namespaces returns the states of offloaded namespaces.
type Namespaces interface {
	// All returns, by local namespace, the state of every namespace that the NamespaceMap maps to a remote one.
	All() map[string]remotens.State
}

// Config has the clients, caches and callbacks of a Controller.
type Config struct {
	// Provider is the name of the provider's ForeignCluster.
	Provider string
	// To has the names of the consumer, the provider and the node, which reflected objects are labeled with.
	To translate.Destination
	// Local and Remote are the clients of the local cluster and of the provider.
	Local, Remote kubernetes.Interface
	// LocalDynamic and RemoteDynamic read and write objects of configured kinds; LocalDynamic reads ServiceExports too.
	LocalDynamic, RemoteDynamic dynamic.Interface
	// RemoteFederation writes ShadowEndpointSlices. View translates their endpoints.
	RemoteFederation versioned.Interface
	View             translate.View
	// Served watches whether the local cluster serves the ServiceExport API; nil means that no Service is exported.
	Served     *mcs.Served
	Namespaces Namespaces
	// VirtualNode returns the VirtualNode whose reflection policy applies to all virtual nodes of the provider; nil if
	// there is no VirtualNode for the provider.
	VirtualNode func() *v1alpha1.VirtualNode
	Recorder    record.EventRecorder
	Metrics     *Metrics
	// Reachable reports whether the provider is reachable. While it is not, no object is reconciled.
	Reachable func() bool
	// Warnings limits the rate of recorded warnings of the provider. It is shared with the warnings about pods.
	Warnings flowcontrol.PassiveRateLimiter
	Clock    clock.PassiveClock
}

// Controller reflects the objects in offloaded namespaces that pods use into the remote namespaces.
type Controller struct {
	Config
	kinds []kind
	queue *queue.Controller[reflectionKey]

	mu sync.RWMutex
	// namespaces has the reflected namespaces, by local name.
	namespaces map[string]reflectedNamespace
	// policies is spec.reflection as last read from the VirtualNode; nil before the first read.
	policies *v1alpha1.VirtualNodeReflection
	// networked is true if pods of the consumer and of the provider can reach each other.
	networked bool
	// classes are the classes of the provider's offer, which reflected Ingresses and Services may name.
	classes translate.Classes
	// configured has the kinds that the reflection policy adds to the built-in ones.
	configured []kind
	// lastEvents has the message of the last event about each object, so that an event is not repeated.
	lastEvents syncMap[reflectionKey, string]
	// statusBytes limits the size of the statuses of configured kinds that are written to local objects.
	statusBytes *rate.Limiter
}

// reflectionKey identifies a local object by its kind's name, namespace and name.
type reflectionKey struct {
	resource string
	cache.ObjectName
}

// String implements fmt.Stringer, for logs and errors.
func (k reflectionKey) String() string { return k.resource + " " + k.ObjectName.String() }

// reflectedNamespace has the reflectors of an offloaded namespace.
type reflectedNamespace struct {
	remote string
	// kinds maps the name of a kind to its reflector, and stops maps it to the function that stops the reflector.
	kinds map[string]reflector
	stops map[string]context.CancelFunc
}

// reflector reflects the objects of one kind in one namespace.
type reflector interface {
	// run starts the caches, which are updated until the context ends. It does not wait until they are filled.
	run(ctx context.Context)
	// synced reports whether the caches are filled.
	synced() bool
	// keys returns the keys of all cached local objects, and of the local objects of all cached reflected objects.
	keys() []reflectionKey
	// original returns the local object whose reflected object has this name and UID, or nil if the caches have none.
	original(copied string, uid types.UID) runtime.Object
	// reconcile creates, updates or deletes the reflected object of one local object. It returns the time after which to
	// call it again; zero means that it is called again only after an event.
	reconcile(ctx context.Context, key reflectionKey) (time.Duration, error)
}

// New returns a controller, which starts with Run.
func New(config Config) *Controller {
	c := &Controller{
		Config: config, kinds: builtin(), namespaces: map[string]reflectedNamespace{},
		statusBytes: rate.NewLimiter(statusBytesPerSecond, statusBytesAtOnce),
	}
	c.queue = queue.New("reflection", reflectionWorkers, c.reconcile)
	return c
}

// Sync starts and stops reflectors, so that exactly the namespaces with a ready remote namespace are reflected. The
// objects of a remote namespace that is being deleted are not changed. A change of the reflection policy enqueues all
// objects. It fails if a reflector cannot be created.
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

// setPolicies stores the reflection policies and the classes of a VirtualNode, and whether its condition NetworkReady
// is True. It enqueues all objects if any of these changed.
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

// syncKinds starts and stops reflectors of a namespace, so that it has one for each built-in and each configured kind.
// It fails if a reflector cannot be created.
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
			// If only the version of the kind changed, the reflected objects remain, and start creates a reflector for the new
			// version.
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

// start creates and starts the reflector of a kind in a namespace, unless the namespace has one for that kind. It fails
// if the reflector cannot be created.
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
		// reconcile ignores keys until both caches are filled.
		if cache.WaitForCacheSync(ctx.Done(), one.synced) {
			c.enqueue(one)
		}
	}()
	return nil
}

// ended stops the reflector of a kind that is no longer configured. It is called when no reflected object remains.
func (c *Controller) ended(o *configured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := c.namespaces[o.namespace]
	if running.kinds[o.name] == reflector(o) && o.ending.Load() {
		running.stops[o.name]()
		delete(running.kinds, o.name)
	}
}

// Warn records a warning that the provider emitted about a reflected object on the local object, for example that a
// load balancer has no address. It drops warnings above the rate of Config.Warnings.
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

// policy returns the reflection policy of a kind. Before Sync has read a VirtualNode, it is the default, DenyList
// without exclusions.
func (c *Controller) policy(of schema.GroupResource) translate.Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.policies == nil {
		return translate.Policy{ClusterID: c.To.DestinationID}
	}
	return translate.PolicyOf(c.policies, of, c.To.DestinationID)
}

// destination returns Config.To with the classes that reflected objects may name.
func (c *Controller) destination() translate.Destination {
	c.mu.RLock()
	defer c.mu.RUnlock()
	to := c.To
	to.Classes = c.classes
	return to
}

// Run reconciles the enqueued objects until the context ends.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

// EnqueueAll enqueues the objects of all reflected namespaces, for example when the provider is reachable again.
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

// reconcile reconciles one object if its namespace is reflected, the caches of its kind are filled and the provider is
// reachable. Otherwise it does nothing: once all three are true, the object is enqueued again.
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
