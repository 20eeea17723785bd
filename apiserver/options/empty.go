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

// named is how many namespaces an error names.
const named = 3

// checkEmpty refuses a store that is empty although the cluster is peered.
// Whatever is not in the store counts as deleted: the controllers would end
// the peerings, and the garbage collector the pods that run for others.
func (o *Options) checkEmpty(ctx context.Context, in *cluster) error {
	if o.AllowEmptyStore {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	empty, err := storage.Empty(ctx, o.Etcd.StorageConfig.Transport, storagePrefix+"/"+v1alpha1.GroupName+"/")
	if err != nil {
		return fmt.Errorf("looking whether the store is empty: %w", oneLine(err))
	}
	if !empty {
		return nil
	}
	left, err := in.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}.String(),
	})
	if err != nil {
		return fmt.Errorf("%s: looking for namespaces of peerings: %w", in.config.Host, oneLine(err))
	}
	if len(left.Items) == 0 {
		return nil
	}
	var names []string
	for _, namespace := range left.Items[:min(named, len(left.Items))] {
		names = append(names, namespace.Name)
	}
	return fmt.Errorf("the store is empty, but %d namespaces of peerings are there (%s): restore a snapshot, or add --allow-empty-store if what they hold may go", len(left.Items), strings.Join(names, ", "))
}
