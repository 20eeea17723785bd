// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

var exportsResource = schema.GroupVersion(mcsv1alpha1.GroupVersion).WithResource(mcsv1alpha1.ServiceExportPluralName)

// newServices returns the reflector of Services in a namespace. It labels the reflected object of a Service that a
// ServiceExport exports.
func newServices(k kind, c *Controller, namespace, remote string) (reflector, error) {
	o := &services{objects: newObjects(k, c, namespace, remote,
		corev1informers.NewFilteredServiceInformer,
		func(c kubernetes.Interface, namespace string) client[*corev1.Service] {
			return c.CoreV1().Services(namespace)
		},
		translation[*corev1.Service, *corev1.Service]{
			update: translate.UpdateService, remoteName: same, localName: same,
		},
	)}
	o.exports = &exportsOf{controller: c, namespace: namespace, changed: func() { c.enqueue(o) }}
	o.translate = func(local *corev1.Service, remote string, to translate.Destination) *corev1.Service {
		exported, complete := o.exports.has(local.Name)
		if !complete {
			// The label does not change until the cache of ServiceExports is filled.
			existing := remotens.Lookup[*corev1.Service](o.reflected.GetStore(), remote, local.Name)
			exported = existing != nil && translate.Exported(existing)
		}
		return translate.Service(translate.MarkExported(local, exported), remote, to)
	}
	return o, o.watch()
}

// services reflects the Services of one namespace and watches its ServiceExports.
type services struct {
	*objects[*corev1.Service, *corev1.Service]
	exports *exportsOf
}

func (o *services) run(ctx context.Context) {
	o.objects.run(ctx)
	go o.exports.run(ctx)
}

// exportsOf watches the ServiceExports of one namespace.
type exportsOf struct {
	controller *Controller
	namespace  string
	// changed is called when the cache of ServiceExports is filled, and when the local cluster does not serve their API.
	changed func()

	mu sync.RWMutex
	// informer is the cache of ServiceExports; nil while they are not watched.
	informer cache.SharedIndexInformer
	// none is true when the local cluster does not serve the ServiceExport API.
	none bool
}

func (e *exportsOf) run(ctx context.Context) {
	if e.controller.Served == nil {
		return
	}
	e.controller.Served.Follow(ctx, func(ctx context.Context, served bool) {
		if !served {
			e.set(nil, true)
			e.changed()
			return
		}
		informer := dynamicinformer.NewFilteredDynamicInformer(
			e.controller.LocalDynamic, exportsResource, e.namespace, 0, cache.Indexers{}, nil).Informer()
		_, err := remotens.OnChange(informer, func(obj any) {
			if name, err := cache.ObjectToName(obj); err == nil {
				e.controller.queue.Add(reflectionKey{resource: servicesName, ObjectName: name})
			}
		})
		if err == nil {
			err = informer.SetTransform(trimOriginal)
		}
		if err != nil {
			// OnChange and SetTransform fail only after the informer is started.
			panic(err)
		}
		e.set(informer, false)
		defer e.set(nil, false)
		go func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				e.changed()
			}
		}()
		informer.RunWithContext(ctx)
	})
}

func (e *exportsOf) set(informer cache.SharedIndexInformer, none bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.informer, e.none = informer, none
}

// has reports whether a Service is exported. complete is false while that is unknown, because the cache of
// ServiceExports is not filled.
func (e *exportsOf) has(service string) (exported, complete bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.none || e.controller.Served == nil {
		return false, true
	}
	if e.informer == nil || !e.informer.HasSynced() {
		return false, false
	}
	export := remotens.Lookup[*unstructured.Unstructured](e.informer.GetStore(), e.namespace, service)
	return export != nil && mcs.Exported(export), true
}
