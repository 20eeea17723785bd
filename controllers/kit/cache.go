// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/controllers/remote"
)

// NewCache returns a cache of the given kinds, each filtered by its options, and adds it to the manager, which starts
// it. The manager's own cache has only one selector for each kind: use NewCache if a controller may read, or needs,
// only some objects of a kind. A controller watches the cache with source.Kind. Reading any other kind from the cache
// is an error.
func NewCache(manager ctrl.Manager, kinds map[client.Object]cache.ByObject) (cache.Cache, error) {
	narrow, err := NewUnmanagedCache(manager, kinds)
	if err != nil {
		return nil, err
	}
	return narrow, manager.Add(narrow)
}

// NewUnmanagedCache is NewCache for kinds that the cluster may not serve: it does not add the cache to the manager, and
// the caller starts it.
func NewUnmanagedCache(manager ctrl.Manager, kinds map[client.Object]cache.ByObject) (cache.Cache, error) {
	narrow, err := cache.New(manager.GetConfig(), cache.Options{
		Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper(), HTTPClient: manager.GetHTTPClient(),
		DefaultTransform:            remote.Trim,
		ReaderFailOnMissingInformer: true,
		ByObject:                    kinds,
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache: %w", err)
	}
	return narrow, nil
}

// Named returns cache options that select the objects with a name, in all namespaces.
func Named(name string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
}
