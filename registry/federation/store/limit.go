// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// Together returns the namespaces whose objects count together towards one limit, for a new object in namespace. They
// include namespace.
type Together func(ctx context.Context, namespace string) ([]string, error)

// limit returns a function that fails with Forbidden if the number of existing objects is at least the parameter most.
// It counts the objects in the namespaces that together returns. If together is nil, it counts those in the namespace
// of the new object, or in the cluster for a kind without namespaces. It counts in the watch cache, so concurrent
// requests may exceed the limit, which protects etcd and is not a quota.
func limit(store *genericregistry.Store, most int, together Together) genericregistry.BeginCreateFunc {
	return func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		namespaces, scope := []string{genericapirequest.NamespaceValue(ctx)}, "the namespace"
		if namespaces[0] == "" {
			scope = "the cluster"
		}
		if together != nil {
			var err error
			if namespaces, err = together(ctx, namespaces[0]); err != nil {
				return nil, err
			}
			if n := len(namespaces); n > 1 {
				scope = fmt.Sprintf("%d namespaces that share the limit", n)
			}
		}
		count := 0
		for _, namespace := range namespaces {
			list, err := store.List(genericapirequest.WithNamespace(ctx, namespace),
				&internalversion.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return nil, err
			}
			count += meta.LenList(list)
		}
		if count >= most {
			name, err := store.ObjectNameFunc(obj)
			if err != nil {
				return nil, err
			}
			// Forbidden, like an exceeded ResourceQuota: clients would retry TooManyRequests without reporting the
			// reason.
			return nil, apierrors.NewForbidden(store.DefaultQualifiedResource, name,
				fmt.Errorf("%s: %d objects exist in %s, the limit is %d: delete objects that are not needed",
					store.DefaultQualifiedResource.Resource, count, scope, most))
		}
		return func(context.Context, bool) {}, nil
	}
}
