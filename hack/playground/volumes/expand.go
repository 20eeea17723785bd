// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// expander completes the expansion of claims. As a directory has no size, it only records the new capacity, first
// in the volume and then in the claim.
type expander struct {
	client kubernetes.Interface
	claims listers.PersistentVolumeClaimLister
	synced cache.InformerSynced
	owns   func(*corev1.PersistentVolume) bool
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// newExpander returns an expander of the claims for whose volumes owns returns true.
func newExpander(
	client kubernetes.Interface, claims informers.PersistentVolumeClaimInformer, owns func(*corev1.PersistentVolume) bool,
) (*expander, error) {
	e := &expander{
		client: client, claims: claims.Lister(), owns: owns,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	registration, err := claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    e.add,
		UpdateFunc: func(_, claim any) { e.add(claim) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching claims: %w", err)
	}
	e.synced = registration.HasSynced
	return e, nil
}

func (e *expander) add(object any) {
	if claim := object.(*corev1.PersistentVolumeClaim); expanding(claim) {
		e.queue.Add(cache.MetaObjectToName(claim))
	}
}

// run expands claims until the context ends.
func (e *expander) run(ctx context.Context) {
	context.AfterFunc(ctx, e.queue.ShutDown)
	if !cache.WaitForCacheSync(ctx.Done(), e.synced) {
		return
	}
	for {
		name, shutdown := e.queue.Get()
		if shutdown {
			return
		}
		if err := e.expand(ctx, name); err != nil {
			klog.ErrorS(err, "Failed to expand claim", "claim", name)
			e.queue.AddRateLimited(name)
		} else {
			e.queue.Forget(name)
		}
		e.queue.Done(name)
	}
}

func (e *expander) expand(ctx context.Context, name cache.ObjectName) error {
	claim, err := e.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading claim: %w", err)
	}
	if !expanding(claim) {
		return nil
	}
	volume, err := e.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading volume: %w", err)
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.UID != claim.UID || !e.owns(volume) {
		return nil
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if capacity := volume.Spec.Capacity[corev1.ResourceStorage]; capacity.Cmp(size) < 0 {
		patch, err := capacityPatch("spec", size)
		if err != nil {
			return err
		}
		_, err = e.client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("writing capacity of volume: %w", err)
		}
	}
	patch, err := capacityPatch("status", size)
	if err != nil {
		return err
	}
	_, err = e.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("writing capacity of claim: %w", err)
	}
	return nil
}

// expanding reports whether a claim is bound and requests more than its capacity.
func expanding(claim *corev1.PersistentVolumeClaim) bool {
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && request.Cmp(capacity) > 0
}

// capacityPatch returns a merge patch that sets the capacity in a part of an object: the spec of a volume, or the
// status of a claim.
func capacityPatch(part string, size resource.Quantity) ([]byte, error) {
	capacity := corev1.ResourceList{corev1.ResourceStorage: size}
	patch, err := json.Marshal(map[string]any{part: map[string]any{"capacity": capacity}})
	if err != nil {
		return nil, fmt.Errorf("encoding capacity: %w", err)
	}
	return patch, nil
}
