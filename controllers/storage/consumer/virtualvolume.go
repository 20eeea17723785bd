// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// VirtualVolumes reports the state of each claim of a virtual StorageClass in a VirtualVolume with the name of the
// claim. That object has no owner reference to the claim, because a move replaces the claim.
type VirtualVolumes struct {
	*Config
	notices notices
}

// Reconcile creates or deletes the VirtualVolume of one claim, or updates its status.
func (v *VirtualVolumes) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Namespace == v.Namespace {
		return ctrl.Result{}, nil
	}
	claim, err := v.claim(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	var described v1alpha1.VirtualVolume
	err = v.Client.Get(ctx, request.NamespacedName, &described)
	switch {
	case apierrors.IsNotFound(err):
		return unlessTerminating(ctrl.Result{}, v.create(ctx, request.NamespacedName, claim))
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the virtual volume: %w", err)
	}
	held := described.Status.Move != nil && running(described.Status.Move)
	if held != controllerutil.ContainsFinalizer(&described, v1alpha1.Finalizer) {
		return unlessTerminating(ctrl.Result{}, v.hold(ctx, &described, held))
	} else if claim == nil {
		if held || !described.DeletionTimestamp.IsZero() {
			return ctrl.Result{}, nil
		}
		if moved, err := v.moved(ctx, request.NamespacedName); err != nil || moved {
			return ctrl.Result{}, err
		}
		return unlessTerminating(ctrl.Result{}, kit.Delete(ctx, v.Client, &described))
	}
	return unlessTerminating(v.describe(ctx, claim, &described))
}

// claim returns the user's claim with this name. It returns nil if there is none, or if a move created the claim.
func (v *VirtualVolumes) claim(ctx context.Context, name types.NamespacedName) (*corev1.PersistentVolumeClaim, error) {
	var claim corev1.PersistentVolumeClaim
	if err := v.Client.Get(ctx, name, &claim); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if _, ofMove := claim.Labels[volume.LabelMove]; ofMove {
		return nil, nil
	}
	return &claim, nil
}

// create creates the VirtualVolume with this name if it is needed.
func (v *VirtualVolumes) create(
	ctx context.Context, name types.NamespacedName, claim *corev1.PersistentVolumeClaim,
) error {
	if needed, err := v.needed(ctx, name, claim); err != nil || !needed {
		return err
	}
	err := v.Client.Create(ctx, &v1alpha1.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the virtual volume: %w", err)
	}
	return nil
}

// needed reports whether a VirtualVolume with this name must exist. It is needed if the claim has a virtual
// StorageClass and is not being deleted, or if volumes record a move of the claim. The latter is the case after a
// restore of an older store, because a move deletes the claim before it creates the claim again. claim may be nil.
func (v *VirtualVolumes) needed(
	ctx context.Context, name types.NamespacedName, claim *corev1.PersistentVolumeClaim,
) (bool, error) {
	if claim != nil && claim.DeletionTimestamp.IsZero() {
		class, err := v.virtualClass(ctx, claim)
		return class != nil, err
	}
	return v.moved(ctx, name)
}

// hold adds the finalizer of the VirtualVolume if held is true, which means that a move is running, and removes it
// otherwise. It adds no finalizer to a VirtualVolume that is being deleted.
func (v *VirtualVolumes) hold(ctx context.Context, described *v1alpha1.VirtualVolume, held bool) error {
	wanted := described.DeepCopy()
	if held && described.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(wanted, v1alpha1.Finalizer)
	} else if !held {
		controllerutil.RemoveFinalizer(wanted, v1alpha1.Finalizer)
	}
	_, err := kit.Commit(ctx, v.Client, described, wanted)
	return client.IgnoreNotFound(err)
}

// describe updates the status of a VirtualVolume, but not its fields about moves, and records warnings on the pods that
// wait for the data.
func (v *VirtualVolumes) describe(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, described *v1alpha1.VirtualVolume,
) (ctrl.Result, error) {
	seen, err := v.observe(ctx, claim)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted := described.DeepCopy()
	seen.into(&wanted.Status, described.Generation)
	if _, err := kit.Commit(ctx, v.Client, described, wanted); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: seen.again}, v.warnPods(ctx, seen)
}

// observe reads the state of a claim and its data. It fails if an API server fails.
func (v *VirtualVolumes) observe(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*observation, error) {
	seen := &observation{claim: claim, ownID: v.ClusterID}
	var pods corev1.PodList
	err := v.Client.List(ctx, &pods, client.InNamespace(claim.Namespace),
		client.MatchingFields{kit.IndexClaims: claim.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the pods that mount the claim: %w", err)
	}
	for i := range pods.Items {
		if !podspec.Finished(&pods.Items[i]) {
			seen.pods = append(seen.pods, &pods.Items[i])
		}
	}
	slices.SortFunc(seen.pods, func(a, b *corev1.Pod) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	if claim.Spec.VolumeName == "" {
		class, err := v.virtualClass(ctx, claim)
		if err == nil && class != nil {
			seen.refusal = unsupported(claim, class)
		}
		return seen, err
	}
	var pv corev1.PersistentVolume
	err = v.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &pv)
	if apierrors.IsNotFound(err) {
		return seen, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading volume %s: %w", claim.Spec.VolumeName, err)
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != claim.Namespace {
		// A claim can name any volume in its spec. Users of this namespace must not see where the data of another namespace
		// is stored.
		return seen, nil
	}
	seen.volume = &pv
	handle, isRemote, err := volume.HandleOf(&pv)
	if err != nil || !isRemote {
		// Releaser reports a malformed volume handle.
		return seen, nil
	}
	seen.handle = &handle
	if seen.cluster, err = v.foreignCluster(ctx, handle.ClusterID); err != nil || seen.cluster == nil {
		return seen, err
	}
	at := place{seen.cluster.Name, handle.Namespace}
	if seen.vanished, seen.again, err = v.vanished(&pv, at, handle.Claim); err != nil {
		return nil, err
	}
	seen.kept, _ = v.Shadows.cached(at, handle.Claim)
	return seen, nil
}
