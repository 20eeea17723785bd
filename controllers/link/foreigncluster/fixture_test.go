// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const milanID = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"

var now = kittest.Epoch

// stepFunc is a function that implements Step.
type stepFunc func(p *Pass) (Outcome, error)

func (f stepFunc) Reconcile(_ context.Context, p *Pass) (Outcome, error) { return f(p) }

// connections implements Peers, and records the removed ForeignClusters.
type connections struct{ removed []string }

func (c *connections) Remove(foreignCluster string) { c.removed = append(c.removed, foreignCluster) }

// fixture has a fake cluster, and a Reconciler with fake connections.
type fixture struct {
	*kittest.Cluster
	connections  connections
	installation trust.Installation
	t            *testing.T
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	return &fixture{Cluster: kittest.New(t, objects...), t: t}
}

// pass reconciles ForeignCluster milan once with these steps; nil means no steps.
func (f *fixture) pass(incoming, outgoing []Step) (time.Duration, error) {
	f.t.Helper()
	r := &Reconciler{
		Client: f.Controller, Events: f.Events, Clock: f.Clock, Peers: &f.connections,
		Installation: f.installation, Incoming: incoming, Outgoing: outgoing,
	}
	result, err := r.Reconcile(f.t.Context(), kit.Request("", "milan"))
	return result.RequeueAfter, err
}

// stored reads ForeignCluster milan from the fake API server.
func (f *fixture) stored() *v1alpha1.ForeignCluster {
	f.t.Helper()
	return kittest.Read(f.Cluster, "", "milan", &v1alpha1.ForeignCluster{})
}

func milan() *v1alpha1.ForeignCluster {
	fc := kittest.ForeignCluster("milan", milanID, v1alpha1.PeeringEnabled, v1alpha1.PeeringDisabled)
	fc.Spec.Server, fc.Spec.InvitationSecretName = "https://10.1.0.1:6443", "invitation-milan"
	return fc
}

func established(p *Pass) (Outcome, error) {
	Outgoing.Set(p.ForeignCluster, v1alpha1.PeeringEstablished, ReasonOfferAccepted, "It works.")
	p.Identity = &Verdict{Phase: v1alpha1.PeeringEstablished, Reason: ReasonIdentityIssued, Message: "It is issued."}
	return Continue, nil
}
