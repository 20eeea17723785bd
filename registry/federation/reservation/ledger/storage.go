// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"

	"liqo.io/federation/apiserver/apis/federation"
)

// Open opens the ledgers of a kind. If alone is true, no other server writes to this etcd, and the ledgers are stored
// in memory. Otherwise they are stored in the etcd of the federation API. Open fails if the storage cannot be
// configured.
func Open[Q, T any, S Sum[S, T]](
	kind Kind[Q, T, S], getter generic.RESTOptionsGetter, alone bool,
) (*Ledgers[Q, T, S], error) {
	if alone {
		return newLedgers(kind, &memory[T]{ledgers: map[string]*Ledger[T]{}}), nil
	}
	ledgers, err := open(getter, kind.Ledgers, newCodec[T](), func() runtime.Object { return &Ledger[T]{} },
		func() runtime.Object { return &List[T]{} })
	if err != nil {
		return nil, err
	}
	l := newLedgers(kind, &shared[T]{storage: ledgers.storage, prefix: ledgers.prefix})
	l.close = ledgers.Close
	return l, nil
}

// Close closes the connections that Open opened.
func (l *Ledgers[Q, T, S]) Close() { l.close() }

// Objects lists the objects of one resource from etcd and not from a cache, so that a changed object, for example a
// reduced offer, limits the next request.
type Objects struct {
	storage storage.Interface
	prefix  string
	// Close closes the connections that OpenObjects opened.
	Close func()
}

// OpenObjects opens the storage of a resource of the federation API. It fails if the storage cannot be configured.
func OpenObjects(
	getter generic.RESTOptionsGetter, resource string, newObject, newList func() runtime.Object,
) (*Objects, error) {
	return open(getter, resource, nil, newObject, newList)
}

// List lists the objects of a namespace into list, or of all namespaces if namespace is empty.
func (o *Objects) List(ctx context.Context, namespace string, list runtime.Object) error {
	prefix := o.prefix + "/"
	if namespace != "" {
		prefix += namespace + "/"
	}
	return o.storage.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list)
}

// open opens a storage without a cache. A nil codec uses the codec of the federation API.
func open(
	getter generic.RESTOptionsGetter, resource string, codec runtime.Codec, newObject, newList func() runtime.Object,
) (*Objects, error) {
	options, err := getter.GetRESTOptions(federation.Resource(resource), newObject())
	if err != nil {
		return nil, fmt.Errorf("finding the storage of %s: %w", resource, err)
	}
	config := *options.StorageConfig
	if codec != nil {
		config.Codec = codec
	}
	prefix := "/" + strings.Trim(options.ResourcePrefix, "/")
	opened, closeStorage, err := generic.NewRawStorage(&config, newObject, newList, prefix)
	if err != nil {
		return nil, fmt.Errorf("setting up the storage of %s: %w", resource, err)
	}
	return &Objects{storage: opened, prefix: prefix, Close: closeStorage}, nil
}
