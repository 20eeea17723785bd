// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

// withdrawPoll is the time between two checks of whether the provider has finished its teardown.
const withdrawPoll = time.Second

// teardownStep tears down a disabled peering on the consumer, once no data on the provider delays it.
// It waits until the virtual nodes and their pods are deleted, withdraws the resource request at the
// provider, and waits until the provider has deleted its objects. After that, or when
// spec.disconnectTimeoutSeconds have passed, it deletes the peer namespace.
type teardownStep struct {
	*Config

	// deleted maps the name of a ForeignCluster to its resourceVersion when its unused invitation
	// was deleted.
	deleted sync.Map
}

// Reconcile implements foreigncluster.Step.
func (s *teardownStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	fc := p.ForeignCluster
	if kit.OutgoingEnabled(fc) {
		meta.RemoveStatusCondition(&fc.Status.Conditions, v1alpha1.ConditionVolumesReleased)
		return foreigncluster.Continue, nil
	}
	namespace, err := foreigncluster.FindNamespace(ctx, s.Client, fc.Name, foreigncluster.Outgoing)
	if err != nil {
		return foreigncluster.Continue, err
	}
	if namespace == nil {
		return foreigncluster.Wait, s.finish(ctx, fc)
	}
	began := foreigncluster.Outgoing.Disconnecting(fc)
	if !began {
		if holds, err := s.hold(ctx, p); err != nil || holds {
			// The following steps keep the identity valid until no data delays the teardown.
			return foreigncluster.Outcome{After: volumesPoll}, err
		}
	}
	p.Identity = leavingIdentity(fc)
	if !began {
		foreigncluster.Outgoing.Disconnect(fc, p.Now)
		return foreigncluster.Wait, nil
	}
	if namespace.DeletionTimestamp != nil {
		return foreigncluster.Wait, nil
	}
	if left := foreigncluster.Outgoing.TimeLeft(p); left > 0 {
		if out, err := s.leave(ctx, p, namespace, left); err != nil || out.Stop {
			return out, err
		}
	} else {
		s.warn(fc, foreigncluster.ReasonDisconnectTimedOut,
			"The provider did not finish the teardown within spec.disconnectTimeoutSeconds: this cluster ends the peering. "+
				"The provider's administrator may have to delete the ForeignCluster of this cluster there.")
	}
	s.Peers.Remove(fc.Name)
	return foreigncluster.Wait, kit.Delete(ctx, s.Client, namespace)
}

// leavingIdentity returns the state of the identity at the provider during the teardown.
func leavingIdentity(fc *v1alpha1.ForeignCluster) *foreigncluster.Verdict {
	if _, revoked := identity.RevokedSince(fc); revoked {
		return &foreigncluster.Verdict{
			Phase: v1alpha1.PeeringDenied, Reason: foreigncluster.ReasonIdentityRevoked,
			Message: "The provider no longer accepts this cluster's identity: the teardown does not wait for " +
				"remote pods to end.",
		}
	}
	return &foreigncluster.Verdict{
		Phase: v1alpha1.PeeringDisconnecting, Reason: foreigncluster.ReasonDisconnecting,
		Message: "The identity at the provider is used until the teardown has ended, and then deleted.",
	}
}

// leave waits until the virtual nodes are deleted, then until the volumes whose OnUnoffload is Delete are deleted,
// and then until the provider has finished its teardown. left is the time until the teardown stops waiting.
func (s *teardownStep) leave(
	ctx context.Context, p *foreigncluster.Pass, namespace *corev1.Namespace, left time.Duration,
) (foreigncluster.Outcome, error) {
	nodes, err := s.virtualNodes(ctx, namespace.Name)
	if err != nil {
		return foreigncluster.Continue, err
	}
	p.ForeignCluster.Status.VirtualNodes = int32(len(nodes))
	if len(nodes) > 0 {
		return foreigncluster.WaitAtMost(left), nil
	}
	if done, err := s.deleteVolumes(ctx, p); err != nil || !done {
		return foreigncluster.WaitAtMost(min(left, volumesPoll)), err
	}
	requests, err := s.requests(ctx, namespace.Name)
	if err != nil {
		return foreigncluster.Continue, err
	}
	for i := range requests {
		// The local request has to be withdrawn first, because the controller in link/replication
		// copies it to the provider.
		if !requests[i].Spec.Withdrawn {
			return foreigncluster.WaitAtMost(left), nil
		}
	}
	finished, err := s.withdraw(ctx, p.ForeignCluster)
	if err != nil {
		return foreigncluster.Continue, fmt.Errorf("withdrawing the resource request at the provider: %w", err)
	}
	if !finished {
		return foreigncluster.WaitAtMost(min(left, withdrawPoll)), nil
	}
	return foreigncluster.Continue, nil
}

// withdraw withdraws the resource request at the provider, and reports whether the provider has
// finished its teardown. It reports true if this cluster has no identity at the provider.
func (s *teardownStep) withdraw(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error) {
	secret := &corev1.Secret{}
	err := s.Live.Get(ctx, identityKey(fc), secret)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	identity, err := remote.FromSecret(secret)
	if errors.Is(err, remote.ErrIncomplete) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := s.Peers.Set(ctx, fc.Name, identity); err != nil {
		return false, err
	}
	peer, ok := s.Peers.Get(fc.Name)
	if !ok {
		return false, errors.New("the connection was closed")
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	return withdraw(ctx, peer, s.ClusterName)
}

// finish closes the connection, deletes an unused invitation, and reports in the status that the
// outgoing direction is disabled. It is called once the peer namespace does not exist.
func (s *teardownStep) finish(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	s.Peers.Remove(fc.Name)
	if err := s.deleteInvitation(ctx, fc); err != nil {
		return err
	}
	fc.Status.PeerNamespace = ""
	fc.Status.RemoteTenantNamespace = ""
	fc.Status.IdentityExpirationTime = nil
	fc.Status.VirtualNodes = 0
	foreigncluster.Outgoing.Set(fc, v1alpha1.PeeringNone, foreigncluster.ReasonDisabled,
		"The outgoing peering is disabled: this cluster uses no resources of the provider.")
	return nil
}
