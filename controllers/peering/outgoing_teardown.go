// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// withdrawPoll is how often a provider is asked whether it has finished.
const withdrawPoll = time.Second

// outgoingTeardown removes a disabled peering on the consumer, as soon as no data on the
// provider holds it: the virtual nodes with their pods, then, by request, the provider's
// side, until the deadline, then what is left on the consumer.
type outgoingTeardown struct {
	volumes         Volumes
	getNamespace    func(name string) (*corev1.Namespace, error)
	deleteNamespace func(ctx context.Context, namespace *corev1.Namespace) error
	virtualNodes    func(namespace string) ([]*v1alpha1.VirtualNode, error)
	requests        func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	// withdraw tells the provider that the peering is over, and whether it
	// has finished with it.
	withdraw         func(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error)
	disconnect       func(foreignCluster string)
	getInvitation    func(name string) (*corev1.Secret, error)
	deleteInvitation func(ctx context.Context, invitation *corev1.Secret) error
	// isOver tells whether this very foreign cluster is there still, and its
	// peering is not wanted: a cache may be late to tell.
	isOver func(ctx context.Context, fc *v1alpha1.ForeignCluster) (bool, error)
	warn   func(fc *v1alpha1.ForeignCluster, reason, message string)

	// forgotten holds, by name, the version of a foreign cluster with which its
	// invitation was removed.
	forgotten sync.Map
}

func (s *outgoingTeardown) reconcile(ctx context.Context, p *pass) (outcome, error) {
	if kit.OutgoingEnabled(p.fc) {
		meta.RemoveStatusCondition(&p.fc.Status.Conditions, v1alpha1.ConditionVolumesReleased)
		return goOn, nil
	}
	name := naming.PeerNamespace(p.fc.Name)
	namespace, err := s.getNamespace(name)
	if apierrors.IsNotFound(err) || (err == nil && !belongsTo(namespace, p.fc.Name, v1alpha1.RolePeer)) {
		return wait, s.gone(ctx, p)
	}
	if err != nil {
		return goOn, err
	}
	_, began := outgoingAspect.disconnectingSince(p.fc)
	if !began {
		if holds, err := s.hold(ctx, p); err != nil || holds {
			// The steps behind keep the peering as it is, for as long as that takes.
			return outcome{after: volumesPoll}, err
		}
	}
	p.identity = &verdict{v1alpha1.PeeringDisconnecting, ReasonDisconnecting, "The identity at the provider is being given back."}
	if _, revoked := identity.RevokedSince(p.fc); revoked {
		p.identity = &verdict{v1alpha1.PeeringDenied, ReasonIdentityRevoked, "The provider no longer accepts this cluster's identity: what runs there is not waited for."}
	}
	if !began {
		outgoingAspect.disconnect(p.fc, p.now)
		return wait, nil
	}
	if namespace.DeletionTimestamp != nil {
		return wait, nil
	}
	left := outgoingAspect.left(p)
	if left > 0 {
		if out, err := s.leave(ctx, p, name, left); err != nil || out.stop {
			return out, err
		}
	} else {
		s.warn(p.fc, ReasonDisconnectTimedOut,
			"The provider did not finish in time: this cluster forgets it now. Its administrator may have to delete the ForeignCluster there.")
	}
	s.disconnect(p.fc.Name)
	if err := s.deleteNamespace(ctx, namespace); err != nil && !apierrors.IsNotFound(err) {
		return goOn, fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return wait, nil
}

// leave waits until the virtual nodes are gone and the provider has finished.
func (s *outgoingTeardown) leave(ctx context.Context, p *pass, namespace string, left time.Duration) (outcome, error) {
	nodes, err := s.virtualNodes(namespace)
	if err != nil {
		return goOn, err
	}
	p.fc.Status.VirtualNodes = int32(len(nodes))
	if len(nodes) > 0 {
		return waitAtMost(left), nil
	}
	if done, err := s.deleteVolumes(ctx, p); err != nil || !done {
		return waitAtMost(min(left, volumesPoll)), err
	}
	requests, err := s.requests(namespace)
	if err != nil {
		return goOn, err
	}
	for _, request := range requests {
		// Otherwise the replicator would take our withdrawal back.
		if !request.Spec.Withdrawn {
			return waitAtMost(left), nil
		}
	}
	finished, err := s.withdraw(ctx, p.fc)
	if err != nil {
		return outcome{}, fmt.Errorf("tell the provider that the peering is over: %w", err)
	}
	if !finished {
		return waitAtMost(min(left, withdrawPoll)), nil
	}
	return goOn, nil
}

// gone says that nothing is left here.
func (s *outgoingTeardown) gone(ctx context.Context, p *pass) error {
	fc := p.fc
	s.disconnect(fc.Name)
	if err := s.forgetInvitation(ctx, fc); err != nil {
		return err
	}
	fc.Status.PeerNamespace = ""
	fc.Status.RemoteTenantNamespace = ""
	fc.Status.IdentityExpirationTime = nil
	fc.Status.VirtualNodes = 0
	outgoingAspect.set(fc, v1alpha1.PeeringNone, ReasonDisabled, "This cluster does not borrow from the other one.")
	return nil
}

// forgetInvitation removes an invitation that was not used, once: as soon as the
// status says that nothing is left, or the foreign cluster is gone, another one
// may lie there for the next time. What was seen while this peering was not over
// is not that one.
func (s *outgoingTeardown) forgetInvitation(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	name := fc.Spec.InvitationSecretName
	done := fc.DeletionTimestamp == nil && (fc.Status.OutgoingPeering == "" || fc.Status.OutgoingPeering == v1alpha1.PeeringNone)
	if name == "" || done {
		s.forgotten.Delete(fc.Name)
		return nil
	}
	if version, ok := s.forgotten.Load(fc.Name); ok && version == fc.ResourceVersion && fc.DeletionTimestamp == nil {
		return nil
	}
	if err := s.removeInvitation(ctx, fc); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the invitation: %w", err)
	}
	s.forgotten.Store(fc.Name, fc.ResourceVersion)
	return nil
}

func (s *outgoingTeardown) removeInvitation(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	secret, err := s.getInvitation(fc.Spec.InvitationSecretName)
	if err != nil || secret.Type != v1alpha1.SecretTypeInvitation {
		return err
	}
	if over, err := s.isOver(ctx, fc); err != nil || !over {
		return err
	}
	return s.deleteInvitation(ctx, secret)
}

// withdrawAt tells a provider that the peering is over. What it does not let
// us see any more, it has finished with.
func withdrawAt(ctx context.Context, peer *remote.Peer, consumer string) (bool, error) {
	client := peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace)
	request, err := client.Get(ctx, consumer, getOptions)
	if apierrors.IsNotFound(err) {
		request = &v1alpha1.ResourceRequest{Spec: v1alpha1.ResourceRequestSpec{Withdrawn: true}}
		request.Name = consumer
		_, err = client.Create(ctx, request, createOptions)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return remote.Rejected(err), ignoreRejected(err)
	}
	if err != nil {
		return remote.Rejected(err), ignoreRejected(err)
	}
	if !request.Spec.Withdrawn {
		request.Spec.Withdrawn = true
		_, err = client.Update(ctx, request, updateOptions)
		return remote.Rejected(err), ignoreRejected(err)
	}
	return request.Status.Phase == v1alpha1.NegotiationWithdrawn, nil
}

func ignoreRejected(err error) error {
	if remote.Rejected(err) {
		return nil
	}
	return err
}
