// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package invitation

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
)

// fetchTime is the time for which the ServiceAccount of an invitation is kept after the identity was issued, even if
// a resource request seems to prove that the consumer has fetched the identity. Creation timestamps have a resolution
// of one second, so that resource request may have been created with an earlier identity.
const fetchTime = 10 * time.Second

// use reports which cluster used an invitation, and deletes the invitation's ServiceAccount once the consumer
// has used the identity that it requested with the invitation. use returns the time after which to call it
// again; zero means never.
func (r *Reconciler) use(
	ctx context.Context, token *v1alpha1.PeeringToken, request *v1alpha1.IdentityRequest,
) (time.Duration, error) {
	if meta.IsStatusConditionTrue(request.Status.Conditions, v1alpha1.ConditionAccepted) {
		wanted := token.DeepCopy()
		wanted.Status.Used = true
		wanted.Status.UsedBy = request.Spec.ClusterID
		if changed, err := kit.Commit(ctx, r.Client, token, wanted); err != nil || changed {
			return 0, err
		}
	}
	issued, ok := issuedAt(request)
	if !ok {
		return 0, nil
	}
	var requests v1alpha1.ResourceRequestList
	if err := r.Client.List(ctx, &requests, client.InNamespace(request.Status.TenantNamespace)); err != nil {
		return 0, err
	}
	// An older resource request was created with the consumer's previous identity. The ServiceAccount is
	// kept then, so that the consumer can still fetch the new identity.
	withThisOne := func(made v1alpha1.ResourceRequest) bool { return !made.CreationTimestamp.Time.Before(issued) }
	if !slices.ContainsFunc(requests.Items, withThisOne) {
		return 0, nil
	}
	if wait := issued.Add(fetchTime).Sub(r.Clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, r.deleteAccounts(ctx, token.Name, request.Name)
}

// issuedAt returns the time at which the identity of an IdentityRequest was issued; false if it is not issued yet.
func issuedAt(request *v1alpha1.IdentityRequest) (time.Time, bool) {
	conditions := request.Status.Conditions
	issued := meta.FindStatusCondition(conditions, v1alpha1.ConditionIssued)
	if identity.KnownByAccount(conditions, request.Generation) {
		issued = meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
	}
	if issued == nil || issued.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return issued.LastTransitionTime.Time, true
}

func isUnowned(request *v1alpha1.IdentityRequest) bool { return metav1.GetControllerOf(request) == nil }
