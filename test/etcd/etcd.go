// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs an etcd inside a test.
package etcd

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/storage"
)

// Start runs an etcd until the test ends, and returns its endpoint.
func Start(t testing.TB) string {
	t.Helper()
	// t.TempDir may return a path that is too long for a unix socket.
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	etcd, err := storage.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	return etcd.Endpoint()
}

// Options are the storage options of a generic API server with watch caches, as in production.
type Options struct {
	config *storagebackend.Config
}

// NewOptions returns storage options for the etcd at endpoint, with the encoding of codec.
func NewOptions(endpoint string, codec runtime.Codec) Options {
	config := storagebackend.NewDefaultConfig("/registry", codec)
	config.Transport.ServerList = []string{endpoint}
	return Options{config}
}

// GetRESTOptions returns the storage options of a resource.
func (o Options) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:  o.config.ForResource(resource),
		Decorator:      filled,
		ResourcePrefix: resource.Group + "/" + resource.Resource,
	}, nil
}

// filled returns a storage with a watch cache, after the cache is initialized. An uninitialized cache refuses lists
// with 429; in production, the server is not ready until then.
func filled(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attrs apistorage.AttrFunc, triggers apistorage.IndexerFuncs,
	indexers *cache.Indexers,
) (apistorage.Interface, factory.DestroyFunc, error) {
	stored, destroy, err := genericregistry.StorageWithCacher()(config, prefix, key, newFunc, newListFunc, attrs,
		triggers, indexers)
	if err != nil {
		return nil, nil, err
	}
	err = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return stored.ReadinessCheck() == nil, nil
		})
	if err != nil {
		destroy()
		return nil, nil, fmt.Errorf("filling the cache of %s: %w", config.GroupResource, err)
	}
	return stored, destroy, nil
}
