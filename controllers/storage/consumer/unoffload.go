// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// Unoffloader moves, deletes or retains data that a provider stores, when its namespace is no longer offloaded to the
// provider or the peering ends. spec.volumes.onUnoffload of the NamespaceOffloading selects what happens to the data.
// It implements the interfaces Volumes of packages offloading and peering.
type Unoffloader struct {
	*Config
	notices   notices
	obstacles obstacles
}

// Held returns, sorted, the names of the claims in a namespace whose data a provider stores. For a retained volume
// whose claim was deleted, it returns "PersistentVolume" and the name of the volume.
func (u *Unoffloader) Held(ctx context.Context, namespace, cluster string) ([]string, error) {
	volumes, err := u.stored(ctx, namespace, cluster)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range volumes {
		if kept(&volumes[i]) {
			names = append(names, "PersistentVolume "+volumes[i].Name)
			continue
		}
		names = append(names, volumes[i].Spec.ClaimRef.Name)
	}
	slices.Sort(names)
	return names, nil
}

// stored returns the PersistentVolumes whose data a provider stores and whose claimRef names a claim in the namespace.
func (u *Unoffloader) stored(ctx context.Context, namespace, cluster string) ([]corev1.PersistentVolume, error) {
	var provider v1alpha1.ForeignCluster
	if err := u.Client.Get(ctx, types.NamespacedName{Name: cluster}, &provider); err != nil {
		return nil, fmt.Errorf("reading foreign cluster %s: %w", cluster, err)
	}
	volumes, err := u.storedAt(ctx, &provider)
	return slices.DeleteFunc(volumes, func(pv corev1.PersistentVolume) bool {
		return pv.Spec.ClaimRef.Namespace != namespace
	}), err
}

// Release starts to move data from the provider to this cluster, deletes it, retains it or does nothing, as
// spec.volumes.onUnoffload selects. It must be called again until Held returns nothing. Unless the policy is Refuse, it
// deletes the PersistentVolumes of retained volumes, and the provider retains their data. It does not change the source
// and the target volume of a move before the move has ended. An error for one volume does not delay the others.
func (u *Unoffloader) Release(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, cluster string) error {
	volumes, err := u.stored(ctx, offloading.Namespace, cluster)
	if err != nil {
		return err
	}
	u.obstacles.reset(offloading.Namespace, cluster)
	var errs []error
	for i := range volumes {
		pv := &volumes[i]
		var err error
		switch policy := offloading.Spec.Volumes.OnUnoffload; {
		case policy == "", policy == v1alpha1.UnoffloadRefuse, heldByMove(pv):
		case kept(pv):
			err = kit.Delete(ctx, u.Client, pv)
		case policy == v1alpha1.UnoffloadMove:
			err = u.move(ctx, pv, cluster)
		case policy == v1alpha1.UnoffloadRetain:
			err = u.giveUp(ctx, pv, corev1.PersistentVolumeReclaimRetain, cluster)
		case policy == v1alpha1.UnoffloadDelete:
			err = u.giveUp(ctx, pv, corev1.PersistentVolumeReclaimDelete, cluster)
		}
		// After a conflict, the next call reads the changed volume.
		if !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// move requests a move of the data to this cluster by the subresource move, which validates the request in the same way
// as a user's request. A refused request is recorded as an obstacle and is repeated by the next call of Release. A
// failed or cancelled move is an obstacle until a user requests another one.
func (u *Unoffloader) move(ctx context.Context, pv *corev1.PersistentVolume, provider string) error {
	claim := types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
	var described v1alpha1.VirtualVolume
	err := u.Client.Get(ctx, claim, &described)
	if apierrors.IsNotFound(err) {
		u.obstacles.set(claim, provider, "the claim has no VirtualVolume, so its data cannot be moved. "+
			"If it represents a claim of the provider, delete it and its PersistentVolume: no data is deleted.")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the virtual volume of claim %s: %w", claim.Name, err)
	}
	why, err := u.request(ctx, &described)
	u.obstacles.set(claim, provider, why)
	return err
}

// request requests a move of the data to this cluster, unless a move is requested or running, or the last requested
// move to this cluster failed or was cancelled. It returns a sentence about what prevents the move and how to resolve
// that, or empty.
func (u *Unoffloader) request(ctx context.Context, described *v1alpha1.VirtualVolume) (string, error) {
	requested, progress := described.Spec.Move, described.Status.Move
	switch {
	case moving(described):
		return "", nil
	case requested != nil && requested.Target.Local && progress != nil &&
		progress.ID == requested.ID && progress.Phase != v1alpha1.MoveSucceeded:
		return fmt.Sprintf("move %s ended with %s: %s Remove the cause, and request the move again by "+
			"a POST to the subresource move.", progress.ID, progress.Phase, progress.Message), nil
	}
	wanted := &v1alpha1.Move{Spec: v1alpha1.MoveSpec{Target: v1alpha1.MoveTarget{Local: true}}}
	err := u.Client.SubResource("move").Create(ctx, described, wanted)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return err.Error() + ".", nil
	case apierrors.IsConflict(err), apierrors.IsTooManyRequests(err):
		// Another move is running or being rolled back. The next call requests the move again.
		return "", nil
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("requesting a move of the data of claim %s: %w", described.Name, err)
	}
	return "", nil
}

// giveUp detaches a volume from its claim, which becomes Lost, and records the reclaim policy that Releaser applies to
// the data. The next call deletes the PersistentVolume. The claimRef of the volume gets the UID of the volume, which no
// claim has, so that no other claim is bound to the volume. cluster is the provider, for the event.
func (u *Unoffloader) giveUp(
	ctx context.Context, pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy, cluster string,
) error {
	if pv.Spec.ClaimRef.UID != pv.UID {
		u.explain(ctx, pv, policy, cluster)
		wanted := pv.DeepCopy()
		wanted.Spec.ClaimRef.UID, wanted.Spec.ClaimRef.ResourceVersion = pv.UID, ""
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationReclaimPolicy, string(policy))
		if _, err := kit.Commit(ctx, u.Client, pv, wanted); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("detaching volume %s from its claim: %w", pv.Name, err)
		}
		return nil
	}
	if !pv.DeletionTimestamp.IsZero() {
		return nil
	}
	return kit.Delete(ctx, u.Client, pv)
}

// explain records an event on the claim that states what happens to its data.
func (u *Unoffloader) explain(
	ctx context.Context, pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy, cluster string,
) {
	var claim corev1.PersistentVolumeClaim
	reference := pv.Spec.ClaimRef
	if u.Client.Get(ctx, types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}, &claim) != nil {
		// The claim does not exist, so the event has no object.
		return
	}
	handle, _, err := volume.HandleOf(pv)
	if err != nil {
		return
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		u.notices.warn(u.Events, &claim, ReasonVolumeDeleted,
			"The namespace is no longer offloaded to %s: the data of the claim on that cluster is deleted.", cluster)
		return
	}
	u.notices.warn(u.Events, &claim, ReasonVolumeLeftBehind,
		"The namespace is no longer offloaded to %s, which retains the data in its claim %s in namespace %s.",
		cluster, handle.Claim, handle.Namespace)
}
