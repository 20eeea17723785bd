// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kittest

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Cached returns a cache that reads from a client. Only its methods Get and List may be called.
func Cached(reader client.Reader) cache.Cache { return cached{reader: reader} }

type cached struct {
	cache.Cache
	reader client.Reader
}

// Get implements client.Reader.
func (c cached) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	return c.reader.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (c cached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.reader.List(ctx, list, options...)
}

// IndexField implements client.FieldIndexer: it adds the indexes of a controller to the fake cluster.
func (c *Cluster) IndexField(_ context.Context, object client.Object, field string, value client.IndexerFunc) error {
	return fake.AddIndex(c.WithWatch, object, field, value)
}

// Reasons is an event recorder that appends the reason of each event to a list, so that a test can compare the order of
// events and of other calls. Only its method Event may be called.
type Reasons struct {
	record.EventRecorder
	// List is the list.
	List *[]string
}

// Event implements record.EventRecorder.
func (r Reasons) Event(_ runtime.Object, _, reason, _ string) { *r.List = append(*r.List, reason) }
