// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/volume"
)

const (
	// IndexClaims is the index of pods by the names of the claims that they mount.
	IndexClaims = "spec.volumes.persistentVolumeClaim.claimName"
	// IndexClaimRef is the index of PersistentVolumes by spec.claimRef, as namespace/name.
	IndexClaimRef = "spec.claimRef"
	// IndexMoving is the index of PersistentVolumes whose data is being moved. Its only value is ValueMoving.
	IndexMoving = "metadata.annotations." + volume.LabelMove
	// ValueMoving is the value of the index IndexMoving for the source and the target volume of a move.
	ValueMoving = "true"
)

// IndexVolumes adds all pods and PersistentVolumes to the cache of a manager, with the indexes IndexClaims,
// IndexClaimRef and IndexMoving. It fails if it is called twice for one manager.
func IndexVolumes(ctx context.Context, manager ctrl.Manager) error {
	indexer := manager.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &corev1.Pod{}, IndexClaims, PodClaims); err != nil {
		return fmt.Errorf("indexing pods by their claims: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.PersistentVolume{}, IndexClaimRef, VolumeClaim); err != nil {
		return fmt.Errorf("indexing persistent volumes by their claims: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.PersistentVolume{}, IndexMoving, VolumeMoving); err != nil {
		return fmt.Errorf("indexing persistent volumes by the annotation of moves: %w", err)
	}
	return nil
}

// PodClaims returns the values of the index IndexClaims for a pod.
func PodClaims(object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	return ClaimsOf(pod)
}

// VolumeClaim returns the value of the index IndexClaimRef for a PersistentVolume; none if spec.claimRef is empty.
func VolumeClaim(object client.Object) []string {
	pv, ok := object.(*corev1.PersistentVolume)
	if !ok || pv.Spec.ClaimRef == nil {
		return nil
	}
	return []string{pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}
}

// VolumeMoving returns the value of the index IndexMoving for a PersistentVolume; none if it has no annotation of a
// move.
func VolumeMoving(object client.Object) []string {
	if object.GetAnnotations()[volume.LabelMove] == "" {
		return nil
	}
	return []string{ValueMoving}
}

// ClaimsOf returns the names of the claims that a pod mounts, in the order of its volumes. The claim of a generic
// ephemeral volume is named after the pod and the volume.
func ClaimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, mounted := range claimVolumes(pod) {
		if mounted.PersistentVolumeClaim != nil {
			names = append(names, mounted.PersistentVolumeClaim.ClaimName)
			continue
		}
		names = append(names, pod.Name+"-"+mounted.Name)
	}
	return names
}
