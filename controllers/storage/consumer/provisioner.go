// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

const (
	// minRefusalDelay and maxRefusalDelay bound the exponential backoff between two removals of the selected node from a
	// claim that is not provisioned. Without a delay, the scheduler would select the same node many times per second.
	minRefusalDelay = time.Second
	maxRefusalDelay = 5 * time.Minute
	// retryDelay is the time after which a request is retried to which a provider did not respond.
	retryDelay = 10 * time.Second
)

// Provisioner provisions claims of virtual StorageClasses on the node that the scheduler selected, a local or a virtual
// one.
type Provisioner struct {
	*Config
	// Capacity publishes the capacity of providers. If a provider refuses a claim for lack of quota, its capacity is
	// lowered before the scheduler selects a node again.
	Capacity *Capacity

	notices  notices
	refusals *flowcontrol.Backoff
}

// Reconcile provisions one claim. Before that, it deletes intermediate claims and ShadowVolumeClaims of the claim that
// are not needed any more, for example because another node was selected. It creates the ShadowVolumeClaim of a bound
// claim again if the provider lost it.
func (p *Provisioner) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var claim corev1.PersistentVolumeClaim
	switch err := p.Client.Get(ctx, request.NamespacedName, &claim); {
	case apierrors.IsNotFound(err):
		after, err := p.sweep(ctx, request.NamespacedName, nil)
		return unlessTerminating(ctrl.Result{RequeueAfter: after}, err)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the claim: %w", err)
	}
	class, err := p.virtualClass(ctx, &claim)
	if err != nil || class == nil {
		return ctrl.Result{}, err
	}
	after, err := p.sweep(ctx, request.NamespacedName, &claim)
	if err != nil {
		return unlessTerminating(ctrl.Result{}, err)
	}
	if !waits(&claim) {
		p.refusals.DeleteEntry(string(claim.UID))
		again, err := p.restore(ctx, &claim)
		return unlessTerminating(ctrl.Result{RequeueAfter: kit.Sooner(after, again)}, err)
	}
	result, err := p.provision(ctx, &claim, class)
	result.RequeueAfter = kit.Sooner(after, result.RequeueAfter)
	return unlessTerminating(result, err)
}

// waits reports whether the provisioner must provision a volume for a claim: it is not bound, Lost or being deleted,
// and has no spec.volumeName. A claim with spec.volumeName is bound by Kubernetes.
func waits(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp.IsZero() && claim.Spec.VolumeName == "" && claim.Status.Phase != corev1.ClaimLost &&
		claim.Status.Phase != corev1.ClaimBound
}

// provision provisions an unbound claim on its selected node.
func (p *Provisioner) provision(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) (ctrl.Result, error) {
	if err := unsupported(claim, class); err != nil {
		p.notices.warn(p.Events, claim, ReasonProvisioningFailed, "%s", err)
		return ctrl.Result{}, nil
	}
	selected := claim.Annotations[volume.AnnotationSelectedNode]
	if selected == "" {
		return ctrl.Result{}, nil
	}
	var node corev1.Node
	switch err := p.Client.Get(ctx, types.NamespacedName{Name: selected}, &node); {
	case apierrors.IsNotFound(err):
		p.notices.record(p.Events, claim, corev1.EventTypeNormal, ReasonProvisioning,
			"Node %s was deleted: the scheduler selects another one.", selected)
		return ctrl.Result{}, p.unselect(ctx, claim)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading node %s: %w", selected, err)
	}
	var result ctrl.Result
	var err error
	if isVirtualNode(&node) {
		result, err = p.provisionRemotely(ctx, claim, class, &node)
	} else {
		result, err = p.provisionLocally(ctx, claim, class)
	}
	var refused *refusal
	if errors.As(err, &refused) {
		p.notices.warn(p.Events, claim, ReasonProvisioningFailed, "%s", refused)
		return ctrl.Result{}, nil
	}
	return result, err
}

// reserved reports whether a claim must not be provisioned: the claimRef of a volume refers to it, it was bound,
// deleted or replaced since it was cached, or its data is being moved. It reads the claim from the API server, and must
// be called before a volume is created or bound.
func (p *Provisioner) reserved(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	var volumes corev1.PersistentVolumeList
	ofClaim := client.MatchingFields{kit.IndexClaimRef: claim.Namespace + "/" + claim.Name}
	if err := p.Client.List(ctx, &volumes, ofClaim); err != nil {
		return false, fmt.Errorf("listing volumes: %w", err)
	}
	for i := range volumes.Items {
		if names(volumes.Items[i].Spec.ClaimRef, claim) {
			return true, nil
		}
	}
	var current corev1.PersistentVolumeClaim
	switch err := p.Live.Get(ctx, client.ObjectKeyFromObject(claim), &current); {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading the claim: %w", err)
	case current.UID != claim.UID, !waits(&current):
		return true, nil
	}
	var described v1alpha1.VirtualVolume
	switch err := p.Live.Get(ctx, client.ObjectKeyFromObject(claim), &described); {
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading the virtual volume: %w", err)
	case err == nil && moving(&described):
		return true, nil
	}
	// The virtual volume may be missing, or lack the move, after a restore of an older store.
	return p.moved(ctx, client.ObjectKeyFromObject(claim))
}

// names reports whether a volume's claimRef refers to this claim, and not to an earlier one of the same name.
func names(reference *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return reference != nil && reference.Namespace == claim.Namespace && reference.Name == claim.Name &&
		(reference.UID == "" || reference.UID == claim.UID)
}

// moving reports whether the data of a virtual volume is being moved, or a move was requested and has not started.
func moving(described *v1alpha1.VirtualVolume) bool {
	progress := described.Status.Move
	if progress == nil || described.Spec.Move != nil && described.Spec.Move.ID != progress.ID {
		return described.Spec.Move != nil
	}
	return running(progress)
}

// running reports whether a move is in progress: its phase is none of Succeeded, Failed and Cancelled.
func running(progress *v1alpha1.MoveProgress) bool {
	switch progress.Phase {
	case v1alpha1.MoveSucceeded, v1alpha1.MoveFailed, v1alpha1.MoveCancelled:
		return false
	}
	return true
}

// unselect removes the selected node from a claim, so that the scheduler selects a node again.
func (p *Provisioner) unselect(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted := claim.DeepCopy()
	delete(wanted.Annotations, volume.AnnotationSelectedNode)
	_, err := kit.Commit(ctx, p.Client, claim, wanted)
	return client.IgnoreNotFound(err)
}

// giveUp records why a claim is not provisioned on the selected node, and removes the selected node from the claim.
// From the second time on, it waits with exponential backoff before the removal, and returns the time to wait.
func (p *Provisioner) giveUp(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, reason error,
) (ctrl.Result, error) {
	p.notices.warn(p.Events, claim, ReasonProvisioningFailed, "%s", reason)
	id, now := string(claim.UID), p.refusals.Clock.Now()
	if wait := p.refusals.Get(id); wait > 0 && p.refusals.IsInBackOffSinceUpdate(id, now) {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	p.refusals.Next(id, now)
	p.refusals.GC()
	return ctrl.Result{}, p.unselect(ctx, claim)
}
