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
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// limit refuses to make more than max objects of a kind, in one namespace if
// the kind is namespaced. It counts what the cache holds, so that a burst may
// go beyond by what is under way; it protects the store and grants nothing.
func limit(store *genericregistry.Store, max int) genericregistry.BeginCreateFunc {
	return func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		list, err := store.List(ctx, &internalversion.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		if count := meta.LenList(list); count >= max {
			name, err := store.ObjectNameFunc(obj)
			if err != nil {
				return nil, err
			}
			// As quotas do. Clients would wait and try again by themselves after 429,
			// and nobody would be told.
			return nil, apierrors.NewForbidden(store.DefaultQualifiedResource, name,
				fmt.Errorf("there are %d of them here already, and no more than %d may be: delete some, or wait until some are gone", count, max))
		}
		return func(context.Context, bool) {}, nil
	}
}
