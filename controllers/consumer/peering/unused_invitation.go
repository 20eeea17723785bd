// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// deleteInvitation deletes the Secret with an unused invitation, only once per teardown: a Secret of the same name
// that is created later may be the invitation to the next peering. Because fc may be outdated, deleteInvitation
// deletes no Secret if isOver, which reads the API server, returns false, or if fc is not being deleted and still has
// the resourceVersion of the last deletion.
func (s *teardownStep) deleteInvitation(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	ended := fc.DeletionTimestamp == nil &&
		(fc.Status.OutgoingPeering == "" || fc.Status.OutgoingPeering == v1alpha1.PeeringNone)
	if fc.Spec.InvitationSecretName == "" || ended {
		s.deleted.Delete(fc.Name)
		return nil
	}
	if version, ok := s.deleted.Load(fc.Name); ok && version == fc.ResourceVersion && fc.DeletionTimestamp == nil {
		return nil
	}
	if err := s.deleteUnused(ctx, fc); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the unused invitation: %w", err)
	}
	s.deleted.Store(fc.Name, fc.ResourceVersion)
	return nil
}

func (s *teardownStep) deleteUnused(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	secret, err := s.invitationSecret(ctx, fc)
	if err != nil || secret.Type != v1alpha1.SecretTypeInvitation {
		return err
	}
	if over, err := s.isOver(ctx, fc); err != nil || !over {
		return err
	}
	return kit.Delete(ctx, s.Client, secret)
}

// isOver reports whether this ForeignCluster still exists and its outgoing direction is disabled. It
// reads the API server, because another ForeignCluster of the same name may have been created that
// the cache does not have yet.
func (s *teardownStep) isOver(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error) {
	current := &v1alpha1.ForeignCluster{}
	err := s.Live.Get(ctx, types.NamespacedName{Name: fc.Name}, current)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && current.UID == fc.UID && !kit.OutgoingEnabled(current), err
}
