// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

const (
	// probePeriod is the time between two probes of a provider that responds, unreachableRetry the
	// time between two probes of a provider that does not.
	probePeriod      = time.Minute
	unreachableRetry = 10 * time.Second
	// grantDelay is the time between two probes while the provider has not bound a role to a new
	// identity yet.
	grantDelay = time.Second
)

// probeStep reports whether the provider responds, and whether it accepts this cluster's identity.
type probeStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *probeStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	err := s.probe(ctx, p.ForeignCluster.Name)
	switch {
	case err == nil:
		return foreigncluster.Outcome{After: probePeriod}, nil
	case remote.Rejected(err) && p.ForeignCluster.Status.OutgoingPeering == v1alpha1.PeeringPending:
		pend(p, foreigncluster.ReasonIdentityPending, "The provider has not granted permissions to the new identity yet.")
		return foreigncluster.WaitAtMost(grantDelay), nil
	case remote.Rejected(err):
		out := deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonIdentityRevoked,
			"The provider no longer accepts this cluster's identity, because it ended the peering. "+
				"Set spec.outgoing to Disabled or delete the ForeignCluster. To peer again, request a new invitation.")
		out.After = probePeriod
		return out, nil
	default:
		p.Unready = &foreigncluster.Verdict{
			Reason:  foreigncluster.ReasonProviderUnreachable,
			Message: fmt.Sprintf(unreachableMessage, p.ForeignCluster.Spec.Server, remote.Describe(err)),
		}
		return foreigncluster.Outcome{After: unreachableRetry}, nil
	}
}

// probe reads this cluster's ResourceRequest from the provider. It succeeds also if the provider
// responds that the object does not exist.
func (s *probeStep) probe(ctx context.Context, foreignCluster string) error {
	peer, ok := s.Peers.Get(foreignCluster)
	if !ok {
		return errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	_, err := peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace).
		Get(ctx, s.ClusterName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
