// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	discoveryv1informers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/reflect"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// servicesName is the resource of Services.
const servicesName = "services"

// byService is the index of EndpointSlices by the name of their Service.
const byService = "service"

// endpointSlices are copied with their Services, as shadow endpoint slices,
// while the pods of both clusters reach each other.
type endpointSlices struct{}

func (endpointSlices) resource() string { return "endpointslices" }

func (e endpointSlices) reflector(r *Reflections, namespace, twin string) (reflector, error) {
	services, ok := r.namespaces[namespace].kinds[servicesName].(*serviceObjects)
	if !ok {
		return nil, fmt.Errorf("the Services of namespace %s are not reflected, and so no endpoints of them", namespace)
	}
	selector := labels.SelectorFromSet(r.to.CopyLabels()).String()
	copies := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	o := &endpointSliceObjects{
		services: services.objects,
		objects: &objects[*discoveryv1.EndpointSlice, *v1alpha1.ShadowEndpointSlice]{
			kind: kind[*discoveryv1.EndpointSlice, *v1alpha1.ShadowEndpointSlice]{
				name: e.resource(), of: discoveryv1.Resource("endpointslices"),
				translate: func(local *discoveryv1.EndpointSlice, twin string, to reflect.Destination) *v1alpha1.ShadowEndpointSlice {
					return reflect.EndpointSlice(local, twin, to, r.view)
				},
				update:     reflect.UpdateEndpointSlice,
				remoteName: same, localName: same,
			},
			reflections: r, namespace: namespace, twin: twin,
			here:   discoveryv1informers.NewFilteredEndpointSliceInformer(r.local, namespace, 0, cache.Indexers{byService: serviceOf}, nil),
			there:  federationinformers.NewFilteredShadowEndpointSliceInformer(r.remoteFederation, twin, 0, cache.Indexers{}, copies),
			copies: r.remoteFederation.FederationV1alpha1().ShadowEndpointSlices(twin),
		},
	}
	o.sends = o.sent
	if err := o.followServices(); err != nil {
		return nil, err
	}
	return o, o.watch()
}

// endpointSliceObjects reflects the EndpointSlices of one namespace.
type endpointSliceObjects struct {
	*objects[*discoveryv1.EndpointSlice, *v1alpha1.ShadowEndpointSlice]
	services *objects[*corev1.Service, *corev1.Service]
}

func (o *endpointSliceObjects) synced() bool {
	return o.objects.synced() && o.services.here.HasSynced()
}

// sent tells whether a slice is to be copied: there is a way to its endpoints,
// and its Service is copied.
func (o *endpointSliceObjects) sent(slice *discoveryv1.EndpointSlice) bool {
	r := o.reflections
	service := lookup[*corev1.Service](o.services.here.GetStore(), o.namespace, slice.Labels[discoveryv1.LabelServiceName])
	return r.connected() && reflect.SendsEndpoints(r.policy(o.services.of), r.policy(o.of), service, slice)
}

// followServices looks again at the slices of a Service that has changed.
func (o *endpointSliceObjects) followServices() error {
	handle := func(obj any) {
		name, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			return
		}
		// That there is such an index was seen to.
		slices, _ := o.here.GetIndexer().ByIndex(byService, name.Name)
		for _, slice := range slices {
			o.reflections.queue.Add(o.key(slice.(*discoveryv1.EndpointSlice).Name))
		}
	}
	_, err := o.services.here.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, obj any) { handle(obj) },
		DeleteFunc: handle,
	})
	return err
}

func serviceOf(obj any) ([]string, error) {
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		return []string{slice.Labels[discoveryv1.LabelServiceName]}, nil
	}
	return nil, nil
}
