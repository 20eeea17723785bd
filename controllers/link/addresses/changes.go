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

// Changes returns the handler of changes of Services and EndpointSlices, for Services.
func (r *EndpointReconciler) Changes() cache.ResourceEventHandler { return changes{r} }

// Complete requests a pass over a namespace of which all Services are known from now on.
func (r *EndpointReconciler) Complete(namespace string) { r.changed.Add(kit.Request("", namespace)) }

// changes requests a pass over a namespace whose Services or endpoints changed. Most endpoints
// are pods, which come and go, and of which there are no mappings of this controller.
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

// concerns reports whether an EndpointSlice has endpoints that are no pods. A pass began the
// watch, so the caches that are read here are filled.
func (c changes) concerns(slice *discoveryv1.EndpointSlice) bool {
	ctx := context.Background()
	local, err := c.local(ctx)
	if err != nil {
		return true
	}
	addresses, err := local.outsiders(ctx, slice)
	return err != nil || len(addresses) > 0
}
