// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/storage"
)

// named is the maximum number of namespaces that an error names.
const named = 3

// checkEmpty returns an error if the store is empty although the cluster has namespaces of peerings,
// unless AllowEmptyStore is set. With an empty store all objects would appear as deleted: the
// controllers would end the peerings, and the garbage collector would delete the pods of consumers.
func (o *Options) checkEmpty(ctx context.Context, in *cluster) error {
	if o.AllowEmptyStore {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	empty, err := storage.Empty(ctx, o.Etcd.StorageConfig.Transport, storagePrefix+"/"+v1alpha1.GroupName+"/")
	if err != nil {
		return fmt.Errorf("reading keys of the store: %w", oneLine(err))
	}
	if !empty {
		return nil
	}
	left, err := in.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}.String(),
	})
	if err != nil {
		return fmt.Errorf("%s: listing the namespaces of peerings: %w", in.config.Host, oneLine(err))
	}
	if len(left.Items) == 0 {
		return nil
	}
	var names []string
	for _, namespace := range left.Items[:min(named, len(left.Items))] {
		names = append(names, namespace.Name)
	}
	return fmt.Errorf("the store is empty, but %d namespaces of peerings exist (%s): restore a snapshot, or set "+
		"--allow-empty-store if they may be deleted", len(left.Items), strings.Join(names, ", "))
}
