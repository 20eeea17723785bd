// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/controllers/remote"
)

// Services watches the Services and EndpointSlices of single namespaces.
type Services struct {
	set
	changed  cache.ResourceEventHandler
	complete func(namespace string)
}

// NamespaceServices lists the Services and EndpointSlices of one namespace from a cache.
type NamespaceServices struct {
	Services corelisters.ServiceNamespaceLister
	Slices   discoverylisters.EndpointSliceNamespaceLister
}

// NewServices returns a Services. changed handles all events of watched namespaces. complete is called once for each
// namespace, when all its Services and EndpointSlices are cached.
func NewServices(
	client kubernetes.Interface, changed cache.ResourceEventHandler, complete func(namespace string),
) *Services {
	return &Services{set: newSet(client), changed: changed, complete: complete}
}

// Of returns the Services and EndpointSlices of a namespace; nil until all are cached. The first call for a namespace
// starts its watch, which ends with ctx.
func (s *Services) Of(ctx context.Context, namespace string) (*NamespaceServices, error) {
	watch, began, err := s.begin(ctx, namespace, serviceContent{changed: s.changed})
	if err != nil {
		return nil, err
	}
	if began {
		go func() {
			if cache.WaitForCacheSync(watch.ctx.Done(), watch.synced) {
				s.complete(namespace)
			}
		}()
	}
	if !watch.synced() {
		return nil, nil
	}
	return &NamespaceServices{
		Services: watch.factory.Core().V1().Services().Lister().Services(namespace),
		Slices:   watch.factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(namespace),
	}, nil
}

// serviceContent implements content for Services.
type serviceContent struct {
	changed cache.ResourceEventHandler
}

func (serviceContent) options(namespace string) []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(namespace), kubeinformers.WithTransform(remote.Trim),
	}
}

func (serviceContent) informers(factory kubeinformers.SharedInformerFactory) []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		factory.Core().V1().Services().Informer(), factory.Discovery().V1().EndpointSlices().Informer(),
	}
}

func (c serviceContent) handler(string) cache.ResourceEventHandler { return c.changed }
