// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/controllers/kit"
)

// Changes returns the handler that the field Services must call for changed Services and EndpointSlices.
func (r *EndpointReconciler) Changes() cache.ResourceEventHandler { return changes{r} }

// Complete enqueues a namespace. The field Services must call it once all Services and EndpointSlices of
// the namespace are cached.
func (r *EndpointReconciler) Complete(namespace string) { r.changed.Add(kit.Request("", namespace)) }

// changes enqueues the namespace of a changed Service, or of a changed EndpointSlice with endpoints that
// are not pods. Most endpoints are pods, which change often and do not concern this controller.
type changes struct{ *EndpointReconciler }

// OnAdd implements cache.ResourceEventHandler.
func (c changes) OnAdd(object any, _ bool) { c.request(object) }

// OnUpdate implements cache.ResourceEventHandler.
func (c changes) OnUpdate(old, current any) {
	c.request(old)
	c.request(current)
}

// OnDelete implements cache.ResourceEventHandler.
func (c changes) OnDelete(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	c.request(object)
}

func (c changes) request(object any) {
	switch object := object.(type) {
	case *corev1.Service:
		c.changed.AddAfter(kit.Request("", object.Namespace), endpointsSettle)
	case *discoveryv1.EndpointSlice:
		if c.concerns(object) {
			c.changed.AddAfter(kit.Request("", object.Namespace), endpointsSettle)
		}
	}
}

// concerns reports whether an EndpointSlice has endpoints that are not pods; true if the caches cannot be read. They
// are synced before the first call, because only reconciles, which run after the sync, start watches of EndpointSlices.
func (c changes) concerns(slice *discoveryv1.EndpointSlice) bool {
	ctx := context.Background()
	local, err := c.local(ctx)
	if err != nil {
		return true
	}
	addresses, err := local.outsiders(ctx, slice)
	return err != nil || len(addresses) > 0
}
