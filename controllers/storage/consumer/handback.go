// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/move"
)

// VolumesInUse returns the PersistentVolumes that prevent the uninstallation: those that are bound to a claim and whose
// data a provider stores, and the source and the target of each running move.
func VolumesInUse(ctx context.Context, reader client.Reader) ([]corev1.PersistentVolume, error) {
	var volumes corev1.PersistentVolumeList
	if err := reader.List(ctx, &volumes); err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	var found []corev1.PersistentVolume
	for _, pv := range volumes.Items {
		_, isRemote, err := volume.HandleOf(&pv)
		_, moved := move.ClaimOf(&pv)
		if moved || err == nil && isRemote && pv.Status.Phase == corev1.VolumeBound {
			found = append(found, pv)
		}
	}
	return found, nil
}

// HandBack removes the project's storage objects and finalizers from this cluster, before its controllers are
// uninstalled. It deletes the virtual StorageClass named class first, so that the controllers create no further
// volumes, then the CSIDriver and the CSIStorageCapacity objects in the namespace, and at last removes the finalizers
// of volumes. Local volumes get the StorageClass that provisioned them, and the reclaim policy that applies at their
// release. Claims that are bound to a volume remain bound. It fails before it changes anything if a move uses a volume.
func HandBack(ctx context.Context, cluster client.Client, class, namespace string) error {
	used, err := VolumesInUse(ctx, cluster)
	if err != nil {
		return err
	}
	for i := range used {
		if claim, moved := move.ClaimOf(&used[i]); moved {
			return fmt.Errorf("restoring volume %s: the data of claim %s is being moved", used[i].Name, claim)
		}
	}
	virtual := &storagev1.StorageClass{}
	err = cluster.Get(ctx, client.ObjectKey{Name: class}, virtual)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading StorageClass %s: %w", class, err)
	}
	if err == nil && isVirtual(virtual) {
		if err := kit.Delete(ctx, cluster, virtual); err != nil {
			return err
		}
	}
	// No other driver can have this name, which is that of the provisioner.
	if err := cluster.Delete(ctx, driver()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the CSIDriver: %w", err)
	}
	var published storagev1.CSIStorageCapacityList
	err = cluster.List(ctx, &published, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	if err != nil {
		return fmt.Errorf("listing storage capacities: %w", err)
	}
	for i := range published.Items {
		if err := kit.Delete(ctx, cluster, &published.Items[i]); err != nil {
			return err
		}
	}
	var volumes corev1.PersistentVolumeList
	if err := cluster.List(ctx, &volumes); err != nil {
		return fmt.Errorf("listing volumes: %w", err)
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if !controllerutil.ContainsFinalizer(pv, volume.Finalizer) {
			continue
		}
		wanted := handedBack(pv)
		if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == v1alpha1.StorageProvisioner {
			wanted = pv.DeepCopy()
			controllerutil.RemoveFinalizer(wanted, volume.Finalizer)
		}
		if _, err := kit.Commit(ctx, cluster, pv, wanted); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of volume %s: %w", pv.Name, err)
		}
	}
	return nil
}
