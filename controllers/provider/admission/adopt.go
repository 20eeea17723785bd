// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// adopt finds or creates the ForeignCluster of a consumer, and makes it the owner of the
// IdentityRequest. If the consumer cannot be admitted, it refuses the IdentityRequest.
func (r *Reconciler) adopt(ctx context.Context, request *v1alpha1.IdentityRequest) error {
	if accepted := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionAccepted); accepted != nil &&
		accepted.Reason == ReasonInvitationNotBound {
		// The refusal is final. Otherwise, a cluster that only claims to have the ID of a known cluster would
		// be admitted once the peering with the known cluster ends.
		return nil
	}
	if request.Spec.ClusterID == r.ClusterID {
		return r.refuse(ctx, request, ReasonOwnCluster, "A cluster cannot be a consumer of itself.")
	}
	all, err := r.inventory(ctx)
	if err != nil {
		return fmt.Errorf("finding the ForeignCluster of the consumer: %w", err)
	}
	token := all.invitation(request)
	switch {
	case token == nil:
		return r.refuse(ctx, request, ReasonInvitationWithdrawn, "The invitation was withdrawn.")
	case token.Spec.ConsumerClusterID != "" && token.Spec.ConsumerClusterID != request.Spec.ClusterID:
		return r.refuse(ctx, request, ReasonInvitationForAnotherCluster,
			"The invitation is for another cluster than "+request.Spec.ClusterID+".")
	}
	fc, reason, message := all.choose(request)
	var others []*v1alpha1.IdentityRequest
	if fc != nil {
		others = all.ownedBy(fc)
	}
	switch {
	case reason != "":
		return r.refuse(ctx, request, reason, message)
	case fc.DeletionTimestamp != nil:
		// An earlier peering is being torn down. Its end enqueues the IdentityRequest again.
		return nil
	case token.Spec.ConsumerClusterID == "" && fc.UID != "" &&
		(len(others) > 0 || fc.Annotations[v1alpha1.AnnotationIdentityRequest] != request.Name):
		return r.refuse(ctx, request, ReasonInvitationNotBound, fmt.Sprintf(
			"ForeignCluster %s of the provider has this cluster ID already, so the invitation must be bound to the cluster ID: "+
				"request one whose PeeringToken has spec.consumerClusterID: %s.", fc.Name, request.Spec.ClusterID))
	case len(others) > 0 && !kit.IncomingEnabled(fc):
		// An earlier incoming peering is being torn down, and the ForeignCluster remains for the outgoing one.
		// The end of the teardown enqueues the IdentityRequest again.
		return nil
	}
	for _, other := range others {
		// The invitation is bound to the cluster ID of the consumer, so its new identity replaces the
		// earlier one.
		if err := kit.Delete(ctx, r.Client, other); err != nil {
			return fmt.Errorf("deleting the earlier identity of the consumer: %w", err)
		}
	}
	switch {
	case fc.UID == "":
		fc.Spec.Trust = cmp.Or(token.Spec.Trust, r.Trust)
		if fc.Spec.Trust == v1alpha1.TrustTenant && token.Spec.ConsumerClusterID == "" {
			// Any holder of the invitation is admitted, so an administrator must decide about the resource
			// request.
			fc.Spec.IncomingPolicy.Decision = v1alpha1.PeeringManual
		}
		if err := r.Client.Create(ctx, fc); err != nil {
			return fmt.Errorf("creating the ForeignCluster of the consumer: %w", err)
		}
	case fc.Spec.Incoming != v1alpha1.PeeringEnabled:
		wanted := fc.DeepCopy()
		wanted.Spec.Incoming = v1alpha1.PeeringEnabled
		_, err := kit.Commit(ctx, r.Client, fc, wanted)
		return err
	}
	owned := request.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences,
		*metav1.NewControllerRef(fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")))
	_, err = kit.Commit(ctx, r.Client, request, owned)
	return err
}
