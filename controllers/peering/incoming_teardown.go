// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// twinRole is what a consumer may do in a twin.
const twinRole = "federation-twin"

// incomingTeardown takes a peering that is not wanted any more apart, on the
// provider: the consumer gives the offer back, its namespaces here go with
// everything in them, and its access goes last. The consumer is waited for
// until the deadline.
type incomingTeardown struct {
	getNamespace    func(name string) (*corev1.Namespace, error)
	deleteNamespace func(ctx context.Context, namespace *corev1.Namespace) error
	identities      func() ([]*v1alpha1.IdentityRequest, error)
	deleteIdentity  func(ctx context.Context, name string) error
	// deleteAccount removes the service account of an invitation.
	deleteAccount    func(ctx context.Context, name string) error
	requests         func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	answerWithdrawal func(ctx context.Context, request *v1alpha1.ResourceRequest) error
	offers           func(namespace string) ([]*v1alpha1.ResourceOffer, error)
	twins            func(foreignCluster string) ([]*corev1.Namespace, error)
	// volumes returns the ShadowVolumeClaims of a remote namespace without pods; no timeout
	// deletes them, so that they are not waited for.
	volumes       func(ctx context.Context, namespace string) ([]string, error)
	getBinding    func(namespace, name string) (*rbacv1.RoleBinding, error)
	deleteBinding func(ctx context.Context, namespace, name string) error
	warn          func(fc *v1alpha1.ForeignCluster, reason, message string)
}

func (s *incomingTeardown) reconcile(ctx context.Context, p *pass) (outcome, error) {
	if kit.IncomingEnabled(p.fc) {
		return goOn, nil
	}
	name := naming.TenantNamespace(p.fc.Name)
	namespace, err := s.getNamespace(name)
	if apierrors.IsNotFound(err) || (err == nil && !belongsTo(namespace, p.fc.Name, v1alpha1.RoleTenant)) {
		return wait, s.gone(ctx, p)
	}
	if err != nil {
		return goOn, err
	}
	p.tenant = &verdict{v1alpha1.PeeringDisconnecting, ReasonDisconnecting, "The consumer's identity is being revoked."}
	if _, began := incomingAspect.disconnectingSince(p.fc); !began {
		incomingAspect.disconnect(p.fc, p.now)
		return wait, nil
	}
	if namespace.DeletionTimestamp != nil {
		return wait, nil
	}
	left := incomingAspect.left(p)
	if left > 0 {
		if out, err := s.evict(ctx, p, name, left); err != nil || out.stop {
			return out, err
		}
	} else {
		s.warn(p.fc, ReasonDisconnectTimedOut, "The consumer, or what it left here, did not go in time: its access is revoked now.")
	}
	return wait, s.revoke(ctx, p.fc.Name, namespace)
}

// evict waits until the consumer has let go and its namespaces are gone.
func (s *incomingTeardown) evict(ctx context.Context, p *pass, namespace string, left time.Duration) (outcome, error) {
	requests, err := s.requests(namespace)
	if err != nil {
		return goOn, err
	}
	leaving := len(requests) == 0
	for _, request := range requests {
		leaving = leaving || request.Spec.Withdrawn
	}
	offers, err := s.offers(namespace)
	if err != nil {
		return goOn, err
	}
	for _, offer := range offers {
		// Withdrawn offers bring the pods home as long as the consumer lives.
		accepted := offer.Status.Phase == v1alpha1.NegotiationAccepted
		if !leaving && (accepted || !offer.Spec.Withdrawn) {
			return waitAtMost(left), nil
		}
	}
	twins, err := s.twins(p.fc.Name)
	if err != nil {
		return goOn, err
	}
	for _, twin := range twins {
		volumes, err := s.volumes(ctx, twin.Name)
		if err != nil {
			return goOn, err
		}
		if len(volumes) == 0 {
			return waitAtMost(min(left, volumesPoll)), nil
		}
	}
	if len(twins) > 0 {
		s.warn(p.fc, ReasonVolumesRemain, kept(twins))
	}
	for _, request := range requests {
		if request.Spec.Withdrawn && request.Status.Phase != v1alpha1.NegotiationWithdrawn {
			if err := s.answerWithdrawal(ctx, request); err != nil {
				return goOn, err
			}
		}
	}
	return goOn, nil
}

// revoke takes the consumer's access, also to twins that did not go in time, and
// then its namespace.
func (s *incomingTeardown) revoke(ctx context.Context, foreignCluster string, namespace *corev1.Namespace) error {
	twins, err := s.twins(foreignCluster)
	if err != nil {
		return err
	}
	for _, twin := range twins {
		if err := s.deleteBinding(ctx, twin.Name, twinRole); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("revoke the consumer's access to %s: %w", twin.Name, err)
		}
	}
	_, err = s.getBinding(namespace.Name, naming.TenantRole)
	if err == nil {
		err = s.deleteBinding(ctx, namespace.Name, naming.TenantRole)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("revoke the consumer's access: %w", err)
	}
	if err := s.deleteNamespace(ctx, namespace); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete namespace %s: %w", namespace.Name, err)
	}
	return nil
}

// gone says that nothing is left here, after the last thing is.
func (s *incomingTeardown) gone(ctx context.Context, p *pass) error {
	identities, err := s.identities()
	if err != nil {
		return err
	}
	for _, request := range ownedBy(p.fc, identities) {
		// With the request gone the invitation could be used again.
		if err := s.deleteAccount(ctx, request.Name); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the service account of the consumer's invitation: %w", err)
		}
		if err := s.deleteIdentity(ctx, request.Name); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the identity request of the consumer: %w", err)
		}
	}
	remaining, err := s.twins(p.fc.Name)
	if err != nil {
		return err
	}
	message := "The incoming peering is disabled: this cluster provides nothing to the consumer."
	if len(remaining) > 0 {
		message += " " + kept(remaining)
	}
	p.fc.Status.TenantNamespace = ""
	incomingAspect.set(p.fc, v1alpha1.PeeringNone, ReasonDisabled, "%s", message)
	return nil
}

// kept returns what remains of a consumer whose peering has ended.
func kept(remoteNamespaces []*corev1.Namespace) string {
	var names []string
	for _, namespace := range remoteNamespaces {
		names = append(names, namespace.Name)
	}
	slices.Sort(names)
	return fmt.Sprintf("Remote namespaces keep volumes of the consumer: %s. The data is found again when the clusters are peered "+
		"again; to delete a namespace, delete its ShadowVolumeClaims.", firstOf(names))
}
