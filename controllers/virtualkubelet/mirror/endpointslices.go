// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	discoveryv1informers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// byService is the name of the index of EndpointSlices by their Service.
const byService = "service"

// byEndpoint is the name of the index of EndpointSlices by the addresses of their endpoints.
const byEndpoint = "endpoint"

// endpointsPause is the delay before a slice is reconciled after an AddressMapping of one of its endpoints changed.
// Changes in that time are merged, since a slice has up to a thousand endpoints.
const endpointsPause = 250 * time.Millisecond

// endingGrace is the time for which reflected slices are still watched after their reflection has ended, since a
// request to create one may be in flight.
const endingGrace = 10 * time.Second

// newEndpointSlices returns the reflector of EndpointSlices in a namespace, which creates ShadowEndpointSlices while
// pods of both clusters can reach each other. It fails without a reflector of the namespace's Services.
func newEndpointSlices(k kind, c *Controller, namespace, remote string) (reflector, error) {
	services, ok := c.namespaces[namespace].kinds[servicesName].(*services)
	if !ok {
		return nil, fmt.Errorf("reflecting EndpointSlices of namespace %s requires reflecting its Services", namespace)
	}
	selector := labels.SelectorFromSet(c.To.ReflectedLabels()).String()
	reflected := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	indexers := cache.Indexers{byService: serviceOf, byEndpoint: endpointsOf}
	shadows := federationinformers.NewFilteredShadowEndpointSliceInformer
	o := &endpointSlices{
		services: services.objects,
		objects: &objects[*discoveryv1.EndpointSlice, *v1alpha1.ShadowEndpointSlice]{
			kind: k,
			translation: translation[*discoveryv1.EndpointSlice, *v1alpha1.ShadowEndpointSlice]{
				translate: func(
					local *discoveryv1.EndpointSlice, remote string, to translate.Destination,
				) *v1alpha1.ShadowEndpointSlice {
					return translate.EndpointSlice(local, remote, to, c.View)
				},
				update: translate.UpdateEndpointSlice, remoteName: same, localName: same,
			},
			controller: c, namespace: namespace, remote: remote,
			local:     discoveryv1informers.NewFilteredEndpointSliceInformer(c.Local, namespace, 0, indexers, nil),
			reflected: shadows(c.RemoteFederation, remote, 0, cache.Indexers{}, reflected),
			client:    c.RemoteFederation.FederationV1alpha1().ShadowEndpointSlices(remote),
		},
	}
	o.reflects = o.isReflected
	if !c.networked {
		// The zero time makes reconcile delete slices that an earlier virtual kubelet reflected.
		o.ending.Store(&time.Time{})
	}
	if err := o.followServices(); err != nil {
		return nil, err
	}
	return o, o.watch()
}

// endpointSlices reflects the EndpointSlices of reflected Services in one namespace.
type endpointSlices struct {
	*objects[*discoveryv1.EndpointSlice, *v1alpha1.ShadowEndpointSlice]
	services  *objects[*corev1.Service, *corev1.Service]
	following cache.ResourceEventHandlerRegistration
	// ending is the time at which the reflection ended because pods of both clusters can no longer reach each other;
	// nil while they can.
	ending atomic.Pointer[time.Time]
}

func (o *endpointSlices) run(ctx context.Context) {
	o.objects.run(ctx)
	// RemoveEventHandler fails only if the handler was removed before.
	context.AfterFunc(ctx, func() { _ = o.services.local.RemoveEventHandler(o.following) })
}

func (o *endpointSlices) synced() bool {
	return o.objects.synced() && o.services.local.HasSynced()
}

// keys returns the keys of all slices, and a key with an empty name, for which reconcile checks whether all reflected
// slices are deleted.
func (o *endpointSlices) keys() []reflectionKey { return append(o.objects.keys(), o.key("")) }

func (o *endpointSlices) reconcile(ctx context.Context, key reflectionKey) (time.Duration, error) {
	if key.Name != "" {
		return o.objects.reconcile(ctx, key)
	}
	since := o.ending.Load()
	if since == nil {
		return 0, nil
	}
	left := endingGrace - time.Since(*since)
	if left <= 0 && len(o.reflected.GetStore().ListKeys()) == 0 {
		o.controller.rest(o)
		return 0, nil
	}
	return max(left, time.Second), nil
}

// isReflected reports whether a slice is reflected: its Service is reflected, the reflection policy of EndpointSlices
// selects the slice, and pods of both clusters reach each other.
func (o *endpointSlices) isReflected(slice *discoveryv1.EndpointSlice) bool {
	r := o.controller
	service := remotens.Lookup[*corev1.Service](
		o.services.local.GetStore(),
		o.namespace,
		slice.Labels[discoveryv1.LabelServiceName],
	)
	return o.ending.Load() == nil &&
		translate.ReflectsEndpoints(r.policy(o.services.resource), r.policy(o.resource), service, slice)
}

// turn starts or ends the reflection of slices: networked is true if pods of both clusters can reach each other. It
// reports whether networked differs from the last call.
func (o *endpointSlices) turn(networked bool) bool {
	if networked == (o.ending.Load() == nil) {
		return false
	}
	var since *time.Time
	if !networked {
		since = ptr.To(time.Now())
	}
	o.ending.Store(since)
	return true
}

// withdrawn is the reflector of EndpointSlices while pods of both clusters cannot reach each other and no reflected
// slice remains. It watches nothing.
type withdrawn struct{}

func (withdrawn) run(context.Context)                       {}
func (withdrawn) synced() bool                              { return true }
func (withdrawn) keys() []reflectionKey                     { return nil }
func (withdrawn) original(string, types.UID) runtime.Object { return nil }
func (withdrawn) reconcile(context.Context, reflectionKey) (time.Duration, error) {
	return 0, nil
}

// turn starts or ends the reflection of a namespace's EndpointSlices according to Controller.networked.
func (c *Controller) turn(running reflectedNamespace) {
	name := endpointSlicesName
	switch one := running.kinds[name].(type) {
	case *endpointSlices:
		if one.turn(c.networked) {
			c.enqueue(one)
		}
	case withdrawn:
		if c.networked {
			delete(running.kinds, name)
		}
	}
}

// rest replaces the reflector of a namespace's EndpointSlices by withdrawn, which stops its watches. It is called when
// no reflected slice remains.
func (c *Controller) rest(o *endpointSlices) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := c.namespaces[o.namespace]
	if running.kinds[o.name] == reflector(o) && o.ending.Load() != nil {
		running.stops[o.name]()
		running.kinds[o.name] = withdrawn{}
	}
}

// EnqueueEndpoints enqueues the slices that have an endpoint with this address.
func (c *Controller) EnqueueEndpoints(address string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, namespace := range c.namespaces {
		o, ok := namespace.kinds[endpointSlicesName].(*endpointSlices)
		if !ok {
			continue
		}
		// ByIndex fails only if the index does not exist.
		slices, _ := o.local.GetIndexer().ByIndex(byEndpoint, address)
		for _, slice := range slices {
			c.queue.AddAfter(o.key(slice.(*discoveryv1.EndpointSlice).Name), endpointsPause)
		}
	}
}

// followServices enqueues the EndpointSlices of each Service that changes, because only slices of reflected Services
// are reflected.
func (o *endpointSlices) followServices() error {
	var err error
	o.following, err = remotens.OnChange(o.services.local, func(obj any) {
		name, err := cache.ObjectToName(obj)
		if err != nil {
			return
		}
		// ByIndex fails only if the index does not exist.
		slices, _ := o.local.GetIndexer().ByIndex(byService, name.Name)
		for _, slice := range slices {
			o.controller.queue.Add(o.key(slice.(*discoveryv1.EndpointSlice).Name))
		}
	})
	return err
}

func serviceOf(obj any) ([]string, error) {
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		return []string{slice.Labels[discoveryv1.LabelServiceName]}, nil
	}
	return nil, nil
}

func endpointsOf(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return nil, nil
	}
	var addresses []string
	for _, endpoint := range slice.Endpoints {
		for _, text := range endpoint.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, address.String())
			}
		}
	}
	return addresses, nil
}
