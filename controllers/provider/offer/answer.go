// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// Reasons of the condition WithinQuota of a ResourceRequest.
const (
	// reasonWithinQuota means that the consumer uses no more than its accepted offers have.
	reasonWithinQuota = "WithinQuota"
	// reasonQuotaReduced means that the consumer uses more than its accepted offers have, because an offer was reduced or
	// because retained volumes count. Wait for pods to end, drain the virtual node, or delete volumes: docs/quotas.md.
	reasonQuotaReduced = "QuotaReduced"
)

// answer writes phase and message of the answer to the status of a resource request.
func (r *Reconciler) answer(
	ctx context.Context, request *v1alpha1.ResourceRequest, phase v1alpha1.NegotiationPhase, offer, message string,
) error {
	answered := request.DeepCopy()
	answered.Status.Phase = phase
	answered.Status.ObservedGeneration = request.Generation
	answered.Status.OfferName = offer
	answered.Status.APIVersions, answered.Status.Features = compatibility.APIVersions(), compatibility.Features()
	meta.SetStatusCondition(&answered.Status.Conditions, negotiation.Accepted(phase, message, request.Generation))
	if err := r.withinGrant(ctx, answered); err != nil {
		return fmt.Errorf("comparing the usage and the quota of request %s: %w", request.Name, err)
	}
	if _, err := kit.Commit(ctx, r.Client, request, answered); err != nil {
		return fmt.Errorf("answering request %s: %w", request.Name, err)
	}
	return nil
}

// withinGrant sets the condition WithinQuota to False while the consumer uses more than its quota, for
// example after the offer was reduced, and to True afterwards. A consumer that never exceeded its quota
// has no such condition.
func (r *Reconciler) withinGrant(ctx context.Context, request *v1alpha1.ResourceRequest) error {
	offers, err := r.offers(ctx, request.Namespace)
	if err != nil {
		return err
	}
	used, stored, err := r.usage(ctx, naming.ForeignClusterOf(request.Namespace))
	if err != nil {
		return err
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionWithinQuota, Status: metav1.ConditionTrue, ObservedGeneration: request.Generation,
		Reason: reasonWithinQuota, Message: "The usage is within the quota.",
	}
	storage, _ := quota.StorageGranted(offers)
	over := append(quota.Exceeded(quota.Granted(offers), used), quota.StorageExceeded(storage, stored)...)
	if len(over) > 0 {
		names := make([]string, len(over))
		for i, short := range over {
			names[i] = string(short.Resource)
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, reasonQuotaReduced
		condition.Message = "The usage exceeds the quota of " + strings.Join(names, ", ") +
			". Existing pods and claims are kept, and no further ones that request these resources are admitted."
	} else if meta.FindStatusCondition(request.Status.Conditions, condition.Type) == nil {
		return nil
	}
	meta.SetStatusCondition(&request.Status.Conditions, condition)
	return nil
}

// usage returns the quota usage of a consumer: used by its unfinished shadow pods, and stored by its
// shadow volume claims and retained volumes.
func (r *Reconciler) usage(ctx context.Context, foreignCluster string) (used, stored corev1.ResourceList, err error) {
	var pods v1alpha1.ShadowPodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var claims v1alpha1.ShadowVolumeClaimList
	if err := r.Client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var volumes corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &volumes, client.MatchingLabels(volume.Retained(foreignCluster)),
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	used = quota.Used(kit.Pointers(pods.Items), foreignCluster)
	stored = quota.StorageUsed(kit.Pointers(claims.Items), foreignCluster)
	quota.Add(stored, quota.RetainedStorage(volumes.Items))
	return used, stored, nil
}
