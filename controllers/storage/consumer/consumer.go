// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package consumer implements virtual StorageClasses on a consumer: it provisions claims on local nodes and on
// providers, publishes the available storage, reports the state of each claim in a VirtualVolume, expands volumes and
// releases them.
package consumer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/move"
)

// Config has the clients and names that the controllers of this package share.
type Config struct {
	// Client reads from the caches of the manager and writes to the API server.
	Client client.Client
	// Live reads from the API server, for decisions that an outdated cache would make wrong.
	Live client.Reader
	// Events records events about claims, volumes and pods.
	Events record.EventRecorder
	// Shadows reads and writes this cluster's ShadowVolumeClaims on its providers.
	Shadows *Shadows
	// ClusterID and ClusterName are the id and the name of this cluster.
	ClusterID, ClusterName string
	// Namespace is the namespace of CSIStorageCapacity objects, and of the intermediate claims for which
	// drivers of local StorageClasses provision volumes.
	Namespace string
}

// isVirtual reports whether a StorageClass is virtual, by its provisioner.
func isVirtual(class *storagev1.StorageClass) bool {
	return class.Provisioner == v1alpha1.StorageProvisioner
}

// virtualClass returns the virtual StorageClass of a claim. It returns nil if the claim's class does not exist or is
// not virtual.
func (c *Config) virtualClass(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*storagev1.StorageClass, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
		return nil, nil
	}
	var class storagev1.StorageClass
	err := c.Client.Get(ctx, types.NamespacedName{Name: *claim.Spec.StorageClassName}, &class)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading StorageClass %s: %w", *claim.Spec.StorageClassName, err)
	case !isVirtual(&class):
		return nil, nil
	}
	return &class, nil
}

// moved reports whether a volume records a move of the data of the claim with this name.
func (c *Config) moved(ctx context.Context, name types.NamespacedName) (bool, error) {
	var volumes corev1.PersistentVolumeList
	if err := c.Client.List(ctx, &volumes, client.MatchingFields{kit.IndexMoving: kit.ValueMoving}); err != nil {
		return false, fmt.Errorf("listing volumes: %w", err)
	}
	return slices.ContainsFunc(volumes.Items, func(pv corev1.PersistentVolume) bool {
		claim, marked := move.ClaimOf(&pv)
		return marked && claim == name
	}), nil
}

// unlessTerminating is kit.Settled, and drops an error caused by a namespace that is being deleted.
func unlessTerminating(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{}, nil
	}
	return kit.Settled(result, err)
}
