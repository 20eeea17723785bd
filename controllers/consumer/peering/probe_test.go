// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

func TestProbeReportsWhetherTheProviderAcceptsTheIdentity(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1alpha1.Resource("resourcerequests"), "rome", errors.New("no"))
	pending, established := v1alpha1.PeeringPending, v1alpha1.PeeringEstablished
	for _, test := range []struct {
		name    string
		before  v1alpha1.PeeringPhase
		err     error
		stop    bool
		phase   v1alpha1.PeeringPhase
		unready string
	}{
		{"a provider that answers", established, nil, false, established, ""},
		{"a new identity without its rights", pending, forbidden, true, pending, ""},
		{"a revoked identity", established, forbidden, true, v1alpha1.PeeringDenied, ""},
		{
			"a provider that does not answer", established, errors.New("no route to host"), false, established,
			foreigncluster.ReasonProviderUnreachable,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newConsumer(t)
			c.fails = test.err
			if err := c.Peers.Set(t.Context(), "milan", &remote.Identity{Namespace: "liqo-tenant-rome"}); err != nil {
				t.Fatal(err)
			}
			p := passAt(milan(), now)
			p.ForeignCluster.Status.OutgoingPeering = test.before
			out, err := (&probeStep{c.Config}).Reconcile(t.Context(), p)
			if err != nil || out.Stop != test.stop || out.After == 0 {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			if p.ForeignCluster.Status.OutgoingPeering != test.phase {
				t.Errorf("outgoing %s", p.ForeignCluster.Status.OutgoingPeering)
			}
			if (p.Unready == nil) != (test.unready == "") || (p.Unready != nil && p.Unready.Reason != test.unready) {
				t.Errorf("unready %+v", p.Unready)
			}
		})
	}
}
