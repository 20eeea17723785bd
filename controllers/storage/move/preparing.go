// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// restrictedLevel is the Pod Security level of a namespace in which movers run as the owner of the files instead of
// root.
const (
	labelPodSecurity = "pod-security.kubernetes.io/enforce"
	restrictedLevel  = "restricted"
)

// errDetached is returned if the claimRef of a volume does not refer to the claim that is bound to the volume. Such a
// volume is being released, for example because its provider is no longer selected.
var errDetached = errors.New("its claimRef does not refer to the claim")

// prepare sets annotationMark of the source volume and its reclaim policy Retain, and starts the receiver, on whose
// node the target volume is created.
func (m *move) prepare(ctx context.Context) (outcome, error) {
	claim, err := m.claim(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !m.same(claim) || claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return giveUp("The claim does not exist, is being deleted or is not bound."), nil
	}
	if _, err := m.grant(ctx); err != nil {
		return outcome{}, err
	}
	source, mark, err := m.markSource(ctx, claim)
	if apierrors.IsNotFound(err) {
		return giveUp("The claim's volume %s was deleted.", claim.Spec.VolumeName), nil
	}
	if errors.Is(err, errDetached) {
		return giveUp("The claim's volume %s is not bound to the claim any more.", claim.Spec.VolumeName), nil
	}
	if err != nil {
		return outcome{}, err
	}
	if mark == nil {
		return giveUp("The namespace is restricted, and no pod that mounts the claim sets runAsUser, " +
			"so that the owner of the files is unknown. Start a pod that does, and request the move again."), nil
	}
	if m.progress.Source, err = m.location(ctx, source); err != nil {
		return outcome{}, err
	}
	if err := m.followUsers(ctx, source, mark); err != nil {
		return outcome{}, err
	}
	at, err := m.targetPlace(ctx)
	if err != nil {
		return outcome{}, err
	}
	if err := m.createTarget(ctx, m.targetClaim(claim, source), m.reflection(at)); err != nil {
		return outcome{}, err
	}
	receiver, err := m.ensure(ctx, moverSpec{role: roleReceiver, claim: m.target, at: at, mark: mark})
	if err != nil {
		return outcome{}, err
	}
	target, err := m.markTarget(ctx, mark)
	switch {
	case errors.Is(err, errDetached):
		return giveUp("The volume of claim %s was deleted or detached from the claim.", m.target), nil
	case err != nil:
		return outcome{}, err
	case target == nil:
		return waitFor(pollInterval, "Waiting for the volume of claim %s: see its events.", m.target), nil
	case receiver == nil || !isPodReady(receiver):
		return waitFor(pollInterval, "Waiting for pod %s: see its events.", m.receiver), nil
	case m.spec.Strategy == v1alpha1.MoveOffline:
		return goTo(v1alpha1.MoveQuiescing), nil
	}
	return goTo(v1alpha1.MoveCopying), nil
}

// createTarget creates the receiver's claim. It creates the Secret and the Service of the movers before, so that they
// exist if the claim does.
func (m *move) createTarget(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, reflection map[string]string,
) error {
	existing, err := m.claimNamed(ctx, claim.Name)
	if err != nil || existing != nil {
		return err
	}
	if err := m.share(ctx, reflection); err != nil {
		return err
	}
	return m.create(ctx, claim)
}

// markSource sets annotationMark of the source volume, and its reclaim policy to Retain. It returns a nil Mark if the
// namespace forbids root and the owner of the files is unknown. It fails with errDetached if the volume does not refer
// to the claim.
func (m *move) markSource(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolume, *Mark, error) {
	source := &corev1.PersistentVolume{}
	if err := m.Live.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, source); err != nil {
		return nil, nil, fmt.Errorf("reading the source volume: %w", err)
	}
	if !refersTo(source, m.key(claim.Name), claim.UID) {
		return nil, nil, fmt.Errorf("reading volume %s: %w", source.Name, errDetached)
	}
	if mark, ok := markOf(source); ok && mark.ID == m.progress.ID {
		return source, mark, nil
	}
	mark := &Mark{
		ID: m.progress.ID, Namespace: claim.Namespace, Claim: claim.Name, ClaimUID: claim.UID, Source: source.Name,
		Policy: source.Spec.PersistentVolumeReclaimPolicy, KeepSource: m.spec.KeepSource,
	}
	if known, err := m.describeUsers(ctx, mark); err != nil || !known {
		return source, nil, err
	}
	marked, err := m.setMark(ctx, source, mark)
	return marked, mark, err
}

// setMark sets the Mark and the reclaim policy Retain of a volume, and returns the changed volume.
func (m *move) setMark(ctx context.Context, pv *corev1.PersistentVolume, mark *Mark) (*corev1.PersistentVolume, error) {
	wanted := pv.DeepCopy()
	keep(wanted)
	if err := mark.set(wanted); err != nil {
		return nil, err
	}
	if _, err := kit.Commit(ctx, m.Client, pv, wanted); err != nil {
		return nil, fmt.Errorf(
			"setting the annotation of the move and the reclaim policy Retain on volume %s: %w", pv.Name, err)
	}
	return wanted, nil
}

// describeUsers records the pods that mount the claim, and their security settings, in a Mark. It returns false if the
// namespace forbids root and no pod specifies the owner of the files.
func (m *move) describeUsers(ctx context.Context, mark *Mark) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := m.Live.Get(ctx, types.NamespacedName{Name: m.volume.Namespace}, namespace); err != nil {
		return false, fmt.Errorf("reading the namespace: %w", err)
	}
	pods, err := m.users(ctx)
	if err != nil {
		return false, err
	}
	mark.Users = usersOf(pods)
	restricted := namespace.Labels[labelPodSecurity] == restrictedLevel
	for i := range pods {
		spec := &pods[i].Spec
		if spec.SecurityContext != nil && mark.SELinux == nil {
			mark.SELinux = spec.SecurityContext.SELinuxOptions
		}
		if restricted && mark.Owner == nil {
			mark.Owner = ownerOf(spec)
		}
	}
	return !restricted || mark.Owner != nil, nil
}

// ownerOf returns the runAsUser of a pod's first container that specifies one, otherwise of the pod, with the fsGroup
// of the pod, otherwise its runAsGroup. It returns nil if neither container nor pod specifies a user.
func ownerOf(spec *corev1.PodSpec) *Owner {
	owner := &Owner{}
	var user *int64
	if spec.SecurityContext != nil {
		user, owner.Group = spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsGroup
		if spec.SecurityContext.FSGroup != nil {
			owner.Group = spec.SecurityContext.FSGroup
		}
	}
	for _, container := range spec.Containers {
		if container.SecurityContext != nil && container.SecurityContext.RunAsUser != nil {
			user = container.SecurityContext.RunAsUser
			break
		}
	}
	if user == nil {
		return nil
	}
	owner.User = *user
	return owner
}

// keep sets the reclaim policy of a volume to Retain, and records the earlier one in the annotation
// volume.AnnotationReclaimPolicy, unless the volume has that annotation already.
func keep(pv *corev1.PersistentVolume) {
	if policy := pv.Spec.PersistentVolumeReclaimPolicy; policy != corev1.PersistentVolumeReclaimRetain {
		if pv.Annotations[volume.AnnotationReclaimPolicy] == "" {
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, volume.AnnotationReclaimPolicy, string(policy))
		}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
}

// unmark removes annotationMark from pv, and restores the reclaim policy in mark, from before the move. A policy in the
// annotation volume.AnnotationReclaimPolicy that was set during the move remains.
func unmark(pv *corev1.PersistentVolume, mark *Mark) {
	current := corev1.PersistentVolumeReclaimPolicy(pv.Annotations[volume.AnnotationReclaimPolicy])
	if mark.Policy != corev1.PersistentVolumeReclaimRetain && mark.Policy != "" && current == mark.Policy {
		pv.Spec.PersistentVolumeReclaimPolicy = mark.Policy
		delete(pv.Annotations, volume.AnnotationReclaimPolicy)
	}
	delete(pv.Annotations, annotationMark)
}

// discard removes annotationMark from pv and records the reclaim policy that Releaser applies once the volume has no
// claim.
func discard(pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, volume.AnnotationReclaimPolicy, string(policy))
	delete(pv.Annotations, annotationMark)
}

// targetPlace returns where the receiver runs. If the target of the move is not local and names no cluster, the
// receiver runs in the cluster that stores the source. It fails with NotFound if the ForeignCluster does not exist, and
// with another error if it has no cluster id yet.
func (m *move) targetPlace(ctx context.Context) (place, error) {
	target := m.spec.Target
	switch {
	case target.Local:
		return place{node: target.NodeName}, nil
	case target.ClusterName == "":
		return place{clusterID: m.progress.Source.ClusterID, node: target.NodeName}, nil
	}
	cluster := &v1alpha1.ForeignCluster{}
	if err := m.Live.Get(ctx, types.NamespacedName{Name: target.ClusterName}, cluster); err != nil {
		return place{}, fmt.Errorf("reading the foreign cluster: %w", err)
	}
	if cluster.Spec.ClusterID == "" {
		return place{}, fmt.Errorf("reading the foreign cluster: %s has no cluster id yet", target.ClusterName)
	}
	return place{clusterID: cluster.Spec.ClusterID, node: target.NodeName}, nil
}

// targetClaim returns the claim that the receiver mounts. It requests the larger of the claim's size and the source's
// size.
func (m *move) targetClaim(
	claim *corev1.PersistentVolumeClaim, source *corev1.PersistentVolume,
) *corev1.PersistentVolumeClaim {
	created := m.moverClaim(m.target, claim, source)
	requests := created.Spec.Resources.Requests
	if size := claim.Spec.Resources.Requests.Storage(); size.Cmp(*requests.Storage()) > 0 {
		requests[corev1.ResourceStorage] = *size
	}
	if class := m.spec.Target.StorageClassName; class != "" {
		key := volume.AnnotationLocalStorageClass
		if m.spec.Target.ClusterName != "" || !m.spec.Target.Local && m.progress.Source.ClusterID != "" {
			key = v1alpha1.AnnotationRemoteStorageClass
		}
		metav1.SetMetaDataAnnotation(&created.ObjectMeta, key, class)
	}
	return created
}

// moverClaim returns a claim for a mover, without spec.volumeName. It has the class of the user's claim, and the size
// and the VolumeAttributesClass of the source: Kubernetes binds the source only to a claim that requests no more than
// its capacity and names the same VolumeAttributesClass.
func (m *move) moverClaim(
	name string, claim *corev1.PersistentVolumeClaim, source *corev1.PersistentVolume,
) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: m.objectMeta(name),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: claim.Spec.AccessModes, StorageClassName: claim.Spec.StorageClassName,
			VolumeMode: claim.Spec.VolumeMode, VolumeAttributesClassName: source.Spec.VolumeAttributesClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *source.Spec.Capacity.Storage()},
			},
		},
	}
}

// markTarget sets annotationMark of the target volume, and its reclaim policy to Retain. It returns the target volume,
// or nil while the receiver's claim is not bound. It fails with errDetached if the target volume was deleted or does
// not refer to the receiver's claim.
func (m *move) markTarget(ctx context.Context, sourceMark *Mark) (*corev1.PersistentVolume, error) {
	claim, err := m.claimNamed(ctx, m.target)
	if err == nil && claim != nil && claim.Status.Phase == corev1.ClaimLost {
		return nil, fmt.Errorf("reading claim %s, which is Lost: %w", claim.Name, errDetached)
	}
	if err != nil || claim == nil || claim.Status.Phase != corev1.ClaimBound {
		return nil, err
	}
	target, err := m.persistentVolume(ctx, claim.Spec.VolumeName)
	if err != nil || target == nil {
		return nil, err
	}
	if !refersTo(target, m.key(claim.Name), claim.UID) || !target.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("reading volume %s: %w", target.Name, errDetached)
	}
	if m.progress.Target, err = m.location(ctx, target); err != nil {
		return nil, err
	}
	if mark, ok := markOf(target); ok && mark.ID == m.progress.ID {
		return target, nil
	}
	return m.setMark(ctx, target, &Mark{
		ID: m.progress.ID, Namespace: sourceMark.Namespace, Claim: sourceMark.Claim, ClaimUID: sourceMark.ClaimUID,
		Source: sourceMark.Source, Target: target.Name, TargetClaimUID: claim.UID, KeepSource: sourceMark.KeepSource,
		Policy: target.Spec.PersistentVolumeReclaimPolicy,
	})
}
