// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/remote"
)

// location returns where a volume's data is stored. It fails if the volume's handle is malformed or its provider has no
// ForeignCluster.
func (r *Reconciler) location(ctx context.Context, pv *corev1.PersistentVolume) (v1alpha1.VolumeLocation, error) {
	at := v1alpha1.VolumeLocation{VolumeName: pv.Name, StorageClassName: pv.Annotations[volume.AnnotationStorageClass]}
	handle, isRemote, err := volume.HandleOf(pv)
	if err != nil || !isRemote {
		return at, err
	}
	at.ClusterID, at.Namespace, at.ClaimName = handle.ClusterID, handle.Namespace, handle.Claim
	var clusters v1alpha1.ForeignClusterList
	if err := r.Live.List(ctx, &clusters); err != nil {
		return at, fmt.Errorf("listing foreign clusters: %w", err)
	}
	index := slices.IndexFunc(clusters.Items, func(fc v1alpha1.ForeignCluster) bool {
		return fc.Spec.ClusterID == handle.ClusterID
	})
	if index < 0 {
		return at, fmt.Errorf("finding the peering with cluster %s, which stores volume %s: no ForeignCluster has its ID",
			handle.ClusterID, pv.Name)
	}
	at.ClusterName = clusters.Items[index].Name
	return at, nil
}

// fence sets the fence on the source, so that its provider reports which pods use the volume. It returns a sentence
// about the reason to wait, or empty if no pod uses the volume. Local volumes need no fence.
func (m *move) fence(ctx context.Context) (string, error) {
	source := m.progress.Source
	if source.ClusterName == "" {
		return "", nil
	}
	claim, err := m.setFence(ctx, m.progress.ID)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s has no ShadowVolumeClaim %s/%s any more.",
			source.ClusterName, source.Namespace, source.ClaimName), nil
	case apierrors.IsConflict(err):
		return "", err
	case err != nil:
		return fmt.Sprintf("The request to %s failed and is retried: %s.", source.ClusterName, remote.Describe(err)), nil
	case claim.Status.Fence == nil || claim.Status.Fence.ID != m.progress.ID:
		return fmt.Sprintf("Waiting for %s to report which pods use the volume.", source.ClusterName), nil
	case len(claim.Status.Fence.Users) > 0:
		return fmt.Sprintf("Waiting for pods on %s to end: %s.",
			source.ClusterName, remote.Text(strings.Join(claim.Status.Fence.Users, ", "))), nil
	}
	return "", nil
}

// setFence sets the fence of the source's ShadowVolumeClaim to the id of a move; empty removes it. It returns the
// object as it was read. It fails without a connection to the provider.
func (m *move) setFence(ctx context.Context, id string) (*v1alpha1.ShadowVolumeClaim, error) {
	source := m.progress.Source
	peer, ok := m.Peers.Get(source.ClusterName)
	if !ok {
		return nil, fmt.Errorf("connecting to %s: there is no connection", source.ClusterName)
	}
	claims := peer.Federation.FederationV1alpha1().ShadowVolumeClaims(source.Namespace)
	claim, err := claims.Get(ctx, source.ClaimName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if claim.Spec.Fence == id {
		return claim, nil
	}
	wanted := claim.DeepCopy()
	wanted.Spec.Fence = id
	_, err = commit.Commit(ctx, claims, claim, wanted)
	return claim, err
}

// removeFence removes the fence of the source. It returns a sentence about the reason to wait, or empty if the fence is
// removed, if the source or its ForeignCluster does not exist any more, or if the peering has ended.
func (m *move) removeFence(ctx context.Context) (string, error) {
	if m.progress.Source.ClusterName == "" {
		return "", nil
	}
	cluster := &v1alpha1.ForeignCluster{}
	cluster, err := found(cluster, m.Live.Get(ctx, types.NamespacedName{Name: m.progress.Source.ClusterName}, cluster))
	if err != nil {
		return "", err
	}
	_, connected := m.Peers.Get(m.progress.Source.ClusterName)
	if cluster == nil || !connected && cluster.Status.OutgoingPeering == v1alpha1.PeeringNone {
		// Without the peering, the consumer cannot change its ShadowVolumeClaims, and the move does not wait for that.
		return "", nil
	}
	_, err = m.setFence(ctx, "")
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsConflict(err):
		return "", err
	}
	return fmt.Sprintf("The request to %s failed and is retried: %s.",
		m.progress.Source.ClusterName, remote.Describe(err)), nil
}
