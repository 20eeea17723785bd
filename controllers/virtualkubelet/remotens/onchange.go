// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import "k8s.io/client-go/tools/cache"

// OnChange calls handle with each object of an informer that is added, changed or deleted. If the watch missed a
// deletion, handle receives the last cached state of the object. It fails if the informer was stopped.
func OnChange(informer cache.SharedInformer, handle func(obj any)) (cache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, obj any) { handle(obj) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			handle(obj)
		},
	})
}
