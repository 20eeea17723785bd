// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// bindTo binds a volume to a claim. It fails with a conflict if the volume changed since it was read. An empty uid
// means any claim of this name. An empty class keeps the volume's StorageClass. change may modify the volume further.
// The whole claimRef is replaced, because a remaining resourceVersion would refer to the earlier claim.
func (r *Reconciler) bindTo(
	ctx context.Context, pv *corev1.PersistentVolume, claim types.NamespacedName, uid types.UID, class string,
	change func(*corev1.PersistentVolume) error,
) error {
	wanted := pv.DeepCopy()
	wanted.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: uid,
	}
	if class != "" {
		wanted.Spec.StorageClassName = class
	}
	if change != nil {
		if err := change(wanted); err != nil {
			return err
		}
	}
	if _, err := kit.Commit(ctx, r.Client, pv, wanted); err != nil {
		return fmt.Errorf("binding volume %s to claim %s: %w", pv.Name, claim.Name, err)
	}
	return nil
}

// refersTo reports whether the claimRef of a volume has this name and this UID.
func refersTo(pv *corev1.PersistentVolume, name types.NamespacedName, uid types.UID) bool {
	reference := pv.Spec.ClaimRef
	return reference != nil && reference.Namespace == name.Namespace && reference.Name == name.Name && reference.UID == uid
}

// touch changes annotationTouched of a claim, because Kubernetes computes a claim's phase only after an event of the
// claim, or every 15 seconds.
func (r *Reconciler) touch(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, annotationTouched,
		r.Clock.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	_, err := kit.Commit(ctx, r.Client, claim, wanted)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The other client's change causes the event.
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating the annotation of claim %s that makes Kubernetes compute its phase: %w", claim.Name, err)
	}
	return nil
}

// annotateMoving sets the annotation that makes admission add a scheduling gate to new pods that mount the claim. An
// empty id removes it. The change is also made in the claim that was passed.
func (m *move) annotateMoving(ctx context.Context, claim *corev1.PersistentVolumeClaim, id string) error {
	if claim.Annotations[volume.AnnotationMoving] == id {
		return nil
	}
	wanted := claim.DeepCopy()
	if id == "" {
		delete(wanted.Annotations, volume.AnnotationMoving)
		delete(wanted.Annotations, annotationTouched)
	} else {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationMoving, id)
	}
	if _, err := kit.Commit(ctx, m.Client, claim, wanted); err != nil {
		return fmt.Errorf("annotating claim %s: %w", claim.Name, err)
	}
	claim.Annotations = wanted.Annotations
	return nil
}

// create creates an object unless it exists. Callers check first whether it exists: each attempt counts against the
// namespace's ResourceQuota until the quota is computed again, and an exhausted quota makes the API server respond with
// Forbidden instead of AlreadyExists.
func (m *move) create(ctx context.Context, object client.Object) error {
	if err := m.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", kindOf(object), object.GetName(), err)
	}
	return nil
}

// createClaim creates a claim of the move unless it exists, and returns it as read from the API server.
func (m *move) createClaim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	existing, err := m.claimNamed(ctx, claim.Name)
	if err != nil || existing != nil {
		return existing, err
	}
	if err := m.create(ctx, claim); err != nil {
		return nil, err
	}
	return m.claimNamed(ctx, claim.Name)
}

// kindOf returns the kind of an object, for errors.
func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

// remove deletes an object of the move, and reports whether it no longer exists. An object of this name that is not
// part of the move is not deleted, and counts as deleted.
func (m *move) remove(ctx context.Context, object client.Object, name string) (bool, error) {
	err := m.Live.Get(ctx, m.key(name), object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", kindOf(object), name, err)
	}
	if object.GetLabels()[volume.LabelMove] != m.progress.ID {
		return true, nil
	}
	if object.GetDeletionTimestamp().IsZero() {
		if err := kit.Delete(ctx, m.Client, object); err != nil {
			return false, err
		}
	}
	err = m.Live.Get(ctx, m.key(name), object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s %s: %w", kindOf(object), name, err)
	}
	return apierrors.IsNotFound(err), nil
}

// removeClaim deletes a claim of the move. It returns a sentence about the reason to wait, for example a pod that still
// mounts the claim, or empty if the claim no longer exists.
func (m *move) removeClaim(ctx context.Context, name string) (string, error) {
	deleted, err := m.remove(ctx, &corev1.PersistentVolumeClaim{}, name)
	if err != nil || deleted {
		return "", err
	}
	pods, err := m.mounting(ctx, name)
	if err != nil || len(pods) == 0 {
		return fmt.Sprintf("Waiting until claim %s is deleted.", name), err
	}
	return fmt.Sprintf("Waiting until claim %s is deleted: delete pod %s, which mounts it.", name, pods[0].Name), nil
}

// objectMeta returns the metadata of an object that the move creates.
func (m *move) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: m.volume.Namespace, Labels: map[string]string{volume.LabelMove: m.progress.ID},
	}
}

// keptOwners returns the owner references of the claim that replaces the user's claim. It omits StatefulSets, whose
// controller sets its reference again, and Pods, because the new claim must not be deleted with the pod. The references
// have no blockOwnerDeletion, which the admission plugin OwnerReferencesPermissionEnforcement refuses unless this
// process may update the finalizers of the owner.
func keptOwners(claim *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, owner := range claim.OwnerReferences {
		if owner.Kind != "StatefulSet" && owner.Kind != "Pod" {
			owner.BlockOwnerDeletion = nil
			kept = append(kept, owner)
		}
	}
	return kept
}

// bindingAnnotations has the prefixes of the annotations by which Kubernetes records the binding of a claim.
var bindingAnnotations = []string{"pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/"}

// again returns the claim that replaces the user's claim. Its spec.volumeName is the target volume.
func again(claim *corev1.PersistentVolumeClaim, target string) *corev1.PersistentVolumeClaim {
	created := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, Namespace: claim.Namespace, Labels: claim.Labels, OwnerReferences: keptOwners(claim),
		},
		Spec: *claim.Spec.DeepCopy(),
	}
	for key, value := range claim.Annotations {
		if key == annotationTouched || hasPrefix(key, bindingAnnotations) {
			continue
		}
		metav1.SetMetaDataAnnotation(&created.ObjectMeta, key, value)
	}
	created.Spec.VolumeName = target
	created.Spec.DataSource, created.Spec.DataSourceRef = nil, nil
	return created
}

func hasPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// finalizerPatch returns a patch that sets the finalizers of an object to kept. The API server refuses it if the object
// changed since it was read.
func finalizerPatch(object client.Object, kept []string) (client.Patch, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": kept,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}
