// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/link/foreigncluster"
)

func TestWithdrawnRequestEndsOnlyTheIncomingPeering(t *testing.T) {
	for _, test := range []struct {
		name      string
		withdrawn bool
		outgoing  v1alpha1.PeeringIntent
		stop      bool
		incoming  v1alpha1.PeeringIntent
		done      []string
	}{
		{"request that is not withdrawn", false, v1alpha1.PeeringDisabled, false, v1alpha1.PeeringEnabled, nil},
		{"withdrawn request with an outgoing peering", true, v1alpha1.PeeringEnabled, true, v1alpha1.PeeringDisabled, nil},
		{
			"withdrawn request without an outgoing peering", true, v1alpha1.PeeringDisabled, true, v1alpha1.PeeringEnabled,
			[]string{"delete ForeignCluster rome"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := rome()
			fc.Spec.Outgoing = test.outgoing
			p := newProvider(t, fc.DeepCopy(), &v1alpha1.ResourceRequest{
				ObjectMeta: inTenant("rome"), Spec: v1alpha1.ResourceRequestSpec{Withdrawn: test.withdrawn},
			})
			pass := &foreigncluster.Pass{ForeignCluster: fc, Now: now}
			out, err := (&withdrawalStep{p.Config}).Reconcile(t.Context(), pass)
			if err != nil || out.Stop != test.stop || pass.ForeignCluster.Spec.Incoming != test.incoming {
				t.Fatalf("outcome %+v, %v, incoming %s", out, err, pass.ForeignCluster.Spec.Incoming)
			}
			if diff := cmp.Diff(test.done, p.done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}
