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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/foreigncluster"
)

const (
	// consumerRole is the name of the ClusterRole that is bound to the consumer in each remote
	// namespace, and of the RoleBinding.
	consumerRole = "federation-remote-namespace"
	// volumesPoll is the time between two reads of the pods and volumes in remote namespaces during a
	// teardown.
	volumesPoll = 5 * time.Second
)

// reasonVolumesRemain of an event on the ForeignCluster of a consumer means that the incoming peering ends, and remote
// namespaces with volumes of the consumer remain. To delete a namespace, delete its ShadowVolumeClaims.
const reasonVolumesRemain = "VolumesRemain"

// teardownStep tears down a disabled peering on the provider. It waits until the consumer has withdrawn its resource
// request, or all offers are withdrawn and none is accepted any more, and until the remote namespaces of the consumer
// are deleted or contain only volumes. After that, or when spec.disconnectTimeoutSeconds have passed, it revokes the
// consumer's access and deletes the tenant namespace.
type teardownStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *teardownStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	fc := p.ForeignCluster
	if kit.IncomingEnabled(fc) {
		return foreigncluster.Continue, nil
	}
	namespace, err := foreigncluster.FindNamespace(ctx, s.Client, fc.Name, foreigncluster.Incoming)
	if err != nil {
		return foreigncluster.Continue, err
	}
	if namespace == nil {
		return foreigncluster.Wait, s.finish(ctx, fc)
	}
	p.Tenant = &foreigncluster.Verdict{
		Phase: v1alpha1.PeeringDisconnecting, Reason: foreigncluster.ReasonDisconnecting,
		Message: "The consumer's identity is being revoked.",
	}
	if !foreigncluster.Incoming.Disconnecting(fc) {
		foreigncluster.Incoming.Disconnect(fc, p.Now)
		return foreigncluster.Wait, nil
	}
	if namespace.DeletionTimestamp != nil {
		return foreigncluster.Wait, nil
	}
	if left := foreigncluster.Incoming.TimeLeft(p); left > 0 {
		if out, err := s.evict(ctx, fc, left); err != nil || out.Stop {
			return out, err
		}
	} else {
		s.warn(fc, foreigncluster.ReasonDisconnectTimedOut,
			"The consumer did not withdraw its acceptance of the offer, or its remote namespaces were not deleted, within "+
				"spec.disconnectTimeoutSeconds: the consumer's access is revoked.")
	}
	return foreigncluster.Wait, s.revoke(ctx, fc.Name, namespace)
}

// evict waits until the consumer has withdrawn its resource request, or all offers are withdrawn and none is accepted
// any more, and until the remote namespaces of the consumer are deleted or contain only volumes. It then answers the
// withdrawn resource request. left is the time until the teardown stops waiting.
func (s *teardownStep) evict(
	ctx context.Context, fc *v1alpha1.ForeignCluster, left time.Duration,
) (foreigncluster.Outcome, error) {
	requests, offers, err := s.negotiation(ctx, fc.Name)
	if err != nil {
		return foreigncluster.Continue, err
	}
	leaving := len(requests) == 0 ||
		slices.ContainsFunc(requests, func(r v1alpha1.ResourceRequest) bool { return r.Spec.Withdrawn })
	for i := range offers {
		// The consumer evicts its pods once it observes that the offer is withdrawn, and then no longer
		// accepts the offer.
		accepted := offers[i].Status.Phase == v1alpha1.NegotiationAccepted
		if !leaving && (accepted || !offers[i].Spec.Withdrawn) {
			return foreigncluster.WaitAtMost(left), nil
		}
	}
	namespaces, err := s.remoteNamespaces(ctx, fc.Name)
	if err != nil {
		return foreigncluster.Continue, err
	}
	for i := range namespaces {
		volumesOnly, err := s.keepsVolumesOnly(ctx, namespaces[i].Name)
		if err != nil {
			return foreigncluster.Continue, err
		}
		if !volumesOnly {
			return foreigncluster.WaitAtMost(min(left, volumesPoll)), nil
		}
	}
	if len(namespaces) > 0 {
		s.warn(fc, reasonVolumesRemain, kept(namespaces))
	}
	for i := range requests {
		if err := s.answerWithdrawal(ctx, &requests[i]); err != nil {
			return foreigncluster.Continue, err
		}
	}
	return foreigncluster.Continue, nil
}

func (s *teardownStep) answerWithdrawal(ctx context.Context, request *v1alpha1.ResourceRequest) error {
	if !request.Spec.Withdrawn || request.Status.Phase == v1alpha1.NegotiationWithdrawn {
		return nil
	}
	answered := request.DeepCopy()
	answered.Status.Phase = v1alpha1.NegotiationWithdrawn
	answered.Status.ObservedGeneration = request.Generation
	_, err := kit.Commit(ctx, s.Client, request, answered)
	return err
}

// remoteNamespaces returns the remote namespaces of a consumer.
func (s *teardownStep) remoteNamespaces(ctx context.Context, foreignCluster string) ([]corev1.Namespace, error) {
	var namespaces corev1.NamespaceList
	err := s.Client.List(ctx, &namespaces, client.MatchingLabels{
		v1alpha1.LabelForeignCluster: foreignCluster, v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace,
	})
	return namespaces.Items, err
}

// keepsVolumesOnly reports whether a remote namespace has ShadowVolumeClaims and no pods. The teardown
// does not wait for it, because volumes are never deleted by a timeout.
func (s *teardownStep) keepsVolumesOnly(ctx context.Context, namespace string) (bool, error) {
	inside, one := client.InNamespace(namespace), client.Limit(1)
	var claims v1alpha1.ShadowVolumeClaimList
	if err := s.Live.List(ctx, &claims, inside, one); err != nil || len(claims.Items) == 0 {
		return false, err
	}
	var shadowPods v1alpha1.ShadowPodList
	if err := s.Live.List(ctx, &shadowPods, inside, one); err != nil || len(shadowPods.Items) > 0 {
		return false, err
	}
	var pods corev1.PodList
	err := s.Live.List(ctx, &pods, inside, one)
	return err == nil && len(pods.Items) == 0, err
}

// revoke deletes the RoleBindings of the consumer in remaining remote namespaces and in its tenant
// namespace, and then the tenant namespace.
func (s *teardownStep) revoke(ctx context.Context, foreignCluster string, tenant *corev1.Namespace) error {
	namespaces, err := s.remoteNamespaces(ctx, foreignCluster)
	if err != nil {
		return err
	}
	for i := range namespaces {
		// The RoleBinding is deleted by name, because the cache may lack a new one, with which the consumer would keep
		// its access, and the controllers may not read RoleBindings from the API server.
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[i].Name, Name: consumerRole}}
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, binding)); err != nil {
			return fmt.Errorf("revoking the consumer's access to remote namespace %s: %w", namespaces[i].Name, err)
		}
	}
	binding := &rbacv1.RoleBinding{}
	err = s.Client.Get(ctx, client.ObjectKey{Namespace: tenant.Name, Name: naming.TenantRole}, binding)
	if err == nil {
		err = kit.Delete(ctx, s.Client, binding)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("revoking the consumer's access to its tenant namespace: %w", err)
	}
	return kit.Delete(ctx, s.Client, tenant)
}

// finish deletes the consumer's IdentityRequests and the ServiceAccounts of its invitations, and
// reports in the status that the incoming direction is disabled, and which remote namespaces keep
// volumes. It is called once the tenant namespace does not exist.
func (s *teardownStep) finish(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	identities, err := s.identities(ctx, fc)
	if err != nil {
		return err
	}
	for _, request := range identities {
		// The ServiceAccount is deleted first: once the IdentityRequest is deleted, the invitation could
		// be used again. Its name contains the UID of the PeeringToken, so no other invitation has this name.
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.InvitationNamespace, Name: request.Name}}
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, account)); err != nil {
			return fmt.Errorf("deleting the ServiceAccount of the consumer's invitation: %w", err)
		}
		if err := kit.Delete(ctx, s.Client, request); err != nil {
			return err
		}
	}
	remaining, err := s.remoteNamespaces(ctx, fc.Name)
	if err != nil {
		return err
	}
	message := "The incoming peering is disabled: this cluster offers no resources to the consumer."
	if len(remaining) > 0 {
		message += " " + kept(remaining)
	}
	fc.Status.TenantNamespace = ""
	foreigncluster.Incoming.Set(fc, v1alpha1.PeeringNone, foreigncluster.ReasonDisabled, "%s", message)
	return nil
}

// kept returns the message for remote namespaces with volumes that remain after the peering ended.
func kept(remoteNamespaces []corev1.Namespace) string {
	var names []string
	for i := range remoteNamespaces {
		names = append(names, remoteNamespaces[i].Name)
	}
	slices.Sort(names)
	return fmt.Sprintf("Remote namespaces with volumes of the consumer remain: %s. "+
		"The data is available again once the clusters are peered again; "+
		"to delete a namespace, delete its ShadowVolumeClaims.", foreigncluster.FirstOf(names))
}
