// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// maxNamedClaims is the maximum number of claims per cluster in the message of a condition.
const maxNamedClaims = 8

// Reasons of the condition VolumesReleased of a NamespaceOffloading.
const (
	// ReasonVolumesReleased means that no cluster that is not selected stores data of the namespace any more.
	ReasonVolumesReleased = "VolumesReleased"
	// ReasonVolumesRemain means that a cluster that is not selected stores data that spec.volumes.onUnoffload keeps
	// there. Move or delete the volumes that the message lists.
	ReasonVolumesRemain = "VolumesRemain"
	// ReasonVolumesMoving means that the data is being moved to the local cluster.
	ReasonVolumesMoving = "VolumesMoving"
	// ReasonVolumesReleasing means that the PersistentVolumes are being deleted, and their claims become Lost.
	// spec.volumes.onUnoffload selects whether the data is deleted or stays on the provider.
	ReasonVolumesReleasing = "VolumesReleasing"
)

// Volumes lists, moves, retains or deletes the data that providers store for claims of a namespace.
type Volumes interface {
	// Held returns the names of the claims of a namespace whose data a cluster stores, and the names of
	// PersistentVolumes whose data it stores without a claim.
	Held(ctx context.Context, namespace, cluster string) ([]string, error)
	// Release starts to move, retain or delete the data that a cluster stores for a namespace, as
	// spec.volumes.onUnoffload selects, and does not wait for the end. Held returns nothing once that is done for all
	// data.
	Release(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, cluster string) error
	// Obstacles returns the reasons why the data of a namespace cannot be moved from a cluster, each as a sentence.
	Obstacles(namespace, cluster string) []string
}

// held returns the names of the claims and PersistentVolumes whose data a cluster stores, so that the remote namespace
// on the cluster is kept. It returns none if the namespace is being deleted, because its claims are deleted with it.
func (c *Config) held(ctx context.Context, namespace, cluster string) ([]string, error) {
	if c.isDeleted(ctx, namespace) {
		return nil, nil
	}
	return c.Volumes.Held(ctx, namespace, cluster)
}

// releasing returns the clusters that store data of a namespace's claims although the namespace is no longer
// offloaded to them; of those whose peering is being ended only if spec.volumes.onUnoffload is not Retain. It also
// returns the condition VolumesReleased, which is nil if there never was such a cluster.
func (r *Reconciler) releasing(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, states []state,
) ([]string, *metav1.Condition, error) {
	var clusters, texts, obstacles []string
	for _, s := range states {
		if !s.requested || s.selected || s.ending && offloading.Spec.Volumes.OnUnoffload == v1alpha1.UnoffloadRetain {
			continue
		}
		claims, err := r.held(ctx, offloading.Namespace, s.cluster)
		if err != nil {
			return nil, nil, err
		}
		if len(claims) == 0 {
			continue
		}
		clusters = append(clusters, s.cluster)
		named := strings.Join(claims[:min(len(claims), maxNamedClaims)], ", ")
		if more := len(claims) - maxNamedClaims; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, fmt.Sprintf("%s stores the data of %s.", s.cluster, named))
		if offloading.Spec.Volumes.OnUnoffload == v1alpha1.UnoffloadMove {
			obstacles = append(obstacles, r.Volumes.Obstacles(offloading.Namespace, s.cluster)...)
		}
	}
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionVolumesReleased, Status: metav1.ConditionFalse,
		ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	}
	before := meta.FindStatusCondition(offloading.Status.Conditions, v1alpha1.ConditionVolumesReleased)
	remedy := ""
	switch {
	case len(clusters) == 0 && before == nil:
		return nil, nil, nil
	case len(clusters) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonVolumesReleased
	case offloading.Spec.Volumes.OnUnoffload == v1alpha1.UnoffloadMove:
		condition.Reason, remedy = ReasonVolumesMoving,
			" The data is being moved to this cluster: see the status of the VirtualVolumes."
	case offloading.Spec.Volumes.OnUnoffload == v1alpha1.UnoffloadRetain,
		offloading.Spec.Volumes.OnUnoffload == v1alpha1.UnoffloadDelete:
		condition.Reason, remedy = ReasonVolumesReleasing,
			" The PersistentVolumes are being deleted, and the claims become Lost: see the events of the claims. "+
				"A volume that a move uses is kept until the move has ended."
	default:
		condition.Reason, remedy = ReasonVolumesRemain,
			" Move or delete the claims, delete the PersistentVolumes without claims, "+
				"or set spec.volumes.onUnoffload to Move, Retain or Delete."
	}
	condition.Message = strings.Join(append([]string{strings.Join(texts, " ") + remedy}, obstacles...), " ")
	return clusters, condition, nil
}

// releaseVolumes calls Volumes.Release for each of the clusters, until one call fails.
func (r *Reconciler) releaseVolumes(ctx context.Context, offloading *v1alpha1.NamespaceOffloading,
	clusters []string,
) error {
	for _, cluster := range clusters {
		if err := r.Volumes.Release(ctx, offloading, cluster); err != nil {
			return err
		}
	}
	return nil
}
