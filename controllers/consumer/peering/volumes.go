// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// volumesPoll is the time between two reads of the volumes that delay a teardown.
const volumesPoll = 5 * time.Second

// Volumes lists the volumes whose data providers store for this cluster, and moves or deletes that data when a
// peering ends.
type Volumes interface {
	// StoredBy returns the volumes whose data a provider stores, sorted by namespace and name. The
	// field OnUnoffload states what happens to the data when the peering ends.
	StoredBy(ctx context.Context, provider *v1alpha1.ForeignCluster) ([]v1alpha1.PlannedVolume, error)
	// ReleaseAll starts to move or to delete the data of the volumes whose field OnUnoffload is policy, Move or
	// Delete, and does not wait for the end. StoredBy no longer returns volumes whose data was moved or deleted.
	ReleaseAll(ctx context.Context, provider *v1alpha1.ForeignCluster, policy v1alpha1.UnoffloadPolicy) error
	// Obstacles returns the reasons why the data of a namespace cannot be moved from a provider, each
	// as a sentence. An empty namespace selects all namespaces.
	Obstacles(namespace, provider string) []string
}

// hold reports whether data that the provider stores delays the teardown, and sets the condition VolumesReleased. If
// it does, hold starts to move the volumes whose OnUnoffload is Move.
func (s *teardownStep) hold(ctx context.Context, p *foreigncluster.Pass) (bool, error) {
	stored, err := s.Volumes.StoredBy(ctx, p.ForeignCluster)
	if err != nil {
		return false, err
	}
	holds, condition := volumesReleased(p.ForeignCluster, stored, s.Volumes.Obstacles("", p.ForeignCluster.Name))
	if condition != nil {
		meta.SetStatusCondition(&p.ForeignCluster.Status.Conditions, *condition)
	}
	if !holds {
		return false, nil
	}
	return true, s.Volumes.ReleaseAll(ctx, p.ForeignCluster, v1alpha1.UnoffloadMove)
}

// deleteVolumes starts to delete the volumes whose OnUnoffload is Delete, and reports whether the provider has
// deleted their data. If forced returns true, it deletes nothing and reports true.
func (s *teardownStep) deleteVolumes(ctx context.Context, p *foreigncluster.Pass) (bool, error) {
	if forced(p.ForeignCluster) {
		return true, nil
	}
	stored, err := s.Volumes.StoredBy(ctx, p.ForeignCluster)
	if err != nil || len(of(stored, v1alpha1.UnoffloadDelete)) == 0 {
		return err == nil, err
	}
	return false, s.Volumes.ReleaseAll(ctx, p.ForeignCluster, v1alpha1.UnoffloadDelete)
}

// forced reports whether the peering ends without requests to the provider, because
// spec.disconnectTimeoutSeconds is zero or the provider no longer accepts this cluster's identity. All
// data then stays on the provider.
func forced(fc *v1alpha1.ForeignCluster) bool {
	_, revoked := identity.RevokedSince(fc)
	return revoked || foreigncluster.DisconnectTimeout(fc) == 0
}

// volumesReleased reports whether data on the provider delays the teardown of a disabled peering, and returns the
// condition VolumesReleased, or nil if the provider never stored any data. Volumes whose OnUnoffload is Delete or
// Retain do not delay the teardown. obstacles are sentences for the condition about what prevents moves.
func volumesReleased(
	fc *v1alpha1.ForeignCluster, stored []v1alpha1.PlannedVolume, obstacles []string,
) (bool, *metav1.Condition) {
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionVolumesReleased, Status: metav1.ConditionFalse, ObservedGeneration: fc.Generation,
	}
	refused, moved := of(stored, v1alpha1.UnoffloadRefuse), of(stored, v1alpha1.UnoffloadMove)
	var texts []string
	text := func(format string, volumes []v1alpha1.PlannedVolume) {
		if len(volumes) > 0 {
			texts = append(texts, fmt.Sprintf(format, named(volumes)))
		}
	}
	holds := false
	switch {
	case len(stored) == 0 && meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased) == nil:
		return false, nil
	case len(stored) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, foreigncluster.ReasonVolumesReleased
		texts = append(texts, "The provider stores no data of this cluster's volumes any more.")
	case forced(fc):
		condition.Reason = foreigncluster.ReasonVolumesLeftBehind
		text("The data of %s stays on the provider: it is available again once the clusters are peered again.", stored)
	case len(refused)+len(moved) > 0:
		holds, condition.Reason = true, foreigncluster.ReasonVolumesMoving
		if len(refused) > 0 {
			condition.Reason = foreigncluster.ReasonVolumesRemain
		}
		text("The provider stores the data of %s, and the peering is kept until that data is moved or deleted: "+
			"move or delete the claims, or set spec.volumes.onUnoffload of the NamespaceOffloadings to Move, Retain or Delete. "+
			"To leave the data on the provider, set spec.disconnectTimeoutSeconds to 0.", refused)
		text("The data of %s is being moved to this cluster: see the status of their VirtualVolumes.", moved)
		texts = append(texts, obstacles...)
	default:
		deleted := of(stored, v1alpha1.UnoffloadDelete)
		condition.Reason = foreigncluster.ReasonVolumesReleasing
		if len(deleted) == 0 {
			condition.Reason = foreigncluster.ReasonVolumesLeftBehind
		}
		text("The data of %s is deleted on the provider once the pods that use it have ended.", deleted)
		text("The data of %s stays on the provider: it is available again once the clusters are peered again.",
			of(stored, v1alpha1.UnoffloadRetain))
	}
	condition.Message = strings.Join(texts, " ")
	return holds, condition
}

// of returns the volumes whose OnUnoffload is policy.
func of(volumes []v1alpha1.PlannedVolume, policy v1alpha1.UnoffloadPolicy) []v1alpha1.PlannedVolume {
	var found []v1alpha1.PlannedVolume
	for _, volume := range volumes {
		if volume.OnUnoffload == policy {
			found = append(found, volume)
		}
	}
	return found
}

// named returns namespace and name of at most 8 volumes, and the number of further volumes; see
// foreigncluster.FirstOf.
func named(volumes []v1alpha1.PlannedVolume) string {
	var names []string
	for _, volume := range volumes {
		names = append(names, volume.Namespace+"/"+volume.Name)
	}
	return foreigncluster.FirstOf(names)
}
