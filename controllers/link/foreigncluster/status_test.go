// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestEstablishedDirectionDoesNotHideTheOther(t *testing.T) {
	good := &Verdict{Phase: v1alpha1.PeeringEstablished, Reason: ReasonIdentityIssued}
	bad := &Verdict{Phase: v1alpha1.PeeringDenied, Reason: ReasonIdentityRevoked}
	for _, test := range []struct {
		identity, tenant *Verdict
		want             v1alpha1.PeeringPhase
	}{
		{nil, nil, v1alpha1.PeeringNone}, {good, nil, v1alpha1.PeeringEstablished}, {nil, good, v1alpha1.PeeringEstablished},
		{good, bad, v1alpha1.PeeringDenied}, {bad, good, v1alpha1.PeeringDenied}, {good, good, v1alpha1.PeeringEstablished},
	} {
		fc := milan()
		summarizeIdentities(fc, test.identity, test.tenant)
		if fc.Status.Authentication != test.want {
			t.Errorf("%+v and %+v are %s, want %s", test.identity, test.tenant, fc.Status.Authentication, test.want)
		}
	}
}

func TestNetworkingIsThatOfTheForeignClusterOrOfTheInstallation(t *testing.T) {
	none, flat, tunnel := v1alpha1.NetworkingNone, v1alpha1.NetworkingFlat, v1alpha1.NetworkingTunnel
	for _, test := range []struct {
		name                   string
		installation, selected v1alpha1.NetworkingMode
		disabled               bool
		want                   v1alpha1.PeeringPhase
		before                 v1alpha1.PeeringPhase
		outgoing               v1alpha1.PeeringPhase
	}{
		{"none is selected", "", "", false, v1alpha1.PeeringNone, "", ""},
		{"the installation selects none", none, "", false, v1alpha1.PeeringNone, "", ""},
		{"the installation selects a flat network", flat, "", false, v1alpha1.PeeringEstablished, "", ""},
		{"the ForeignCluster selects a flat network", none, flat, false, v1alpha1.PeeringEstablished, "", ""},
		{"the ForeignCluster selects none", flat, none, false, v1alpha1.PeeringNone, "", ""},
		{"the peering is disabled", flat, flat, true, v1alpha1.PeeringNone, "", ""},
		{"pods of a disabled peering are evicted", flat, flat, true, v1alpha1.PeeringEstablished, "", v1alpha1.PeeringDisconnecting},
		{"the state of a tunnel is kept", none, tunnel, false, v1alpha1.PeeringPending, v1alpha1.PeeringPending, ""},
		{"a tunnel without a state", tunnel, "", false, v1alpha1.PeeringNone, "", ""},
		{"a tunnel that is no longer selected", tunnel, none, false, v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Pass{ForeignCluster: milan(), Now: now, Networking: test.installation}
			p.ForeignCluster.Spec.Networking, p.ForeignCluster.Status.Networking = test.selected, test.before
			p.ForeignCluster.Status.OutgoingPeering = test.outgoing
			if test.disabled {
				p.ForeignCluster.Spec.Outgoing, p.ForeignCluster.Spec.Incoming = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisabled
			}
			if got := networking(p); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A ForeignCluster of version v0.1.0 has no trust.
func TestConditionReportsThatNoTrustIsSelected(t *testing.T) {
	fc := milan()
	for _, trust := range []v1alpha1.PeeringTrust{v1alpha1.TrustTenant, v1alpha1.TrustSameOwner} {
		fc.Spec.Trust = ""
		summarize(&Pass{ForeignCluster: fc, Now: now})
		if !meta.IsStatusConditionFalse(fc.Status.Conditions, v1alpha1.ConditionTrustSelected) {
			t.Fatalf("without trust: conditions %+v", fc.Status.Conditions)
		}
		fc.Spec.Trust = trust
		summarize(&Pass{ForeignCluster: fc, Now: now})
		if got := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionTrustSelected); got != nil {
			t.Errorf("with trust %s: condition %+v", trust, got)
		}
	}
}

func TestPoliciesAreWrittenOnlyWhenTheyChange(t *testing.T) {
	disabled := milan()
	disabled.Spec.Outgoing, disabled.Finalizers = v1alpha1.PeeringDisabled, nil
	for name, fc := range map[string]*v1alpha1.ForeignCluster{"enabled": milan(), "never enabled": disabled} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, fc)
			for _, stage := range []struct {
				name   string
				reach  v1alpha1.ReachMode
				writes int
				want   v1alpha1.EffectivePolicy
			}{
				{"first", "", 1, v1alpha1.EffectivePolicy{Value: "All", Source: v1alpha1.PolicySourceTrust}},
				{"nothing changed", "", 0, v1alpha1.EffectivePolicy{Value: "All", Source: v1alpha1.PolicySourceTrust}},
				{"a value of the chart changed", v1alpha1.ReachOffloaded, 1,
					v1alpha1.EffectivePolicy{Value: "Offloaded", Source: v1alpha1.PolicySourceValue}},
				{"nothing changed again", v1alpha1.ReachOffloaded, 0,
					v1alpha1.EffectivePolicy{Value: "Offloaded", Source: v1alpha1.PolicySourceValue}},
			} {
				f.installation.Reach = stage.reach
				before := len(f.Writes)
				if _, err := f.pass(nil, nil); err != nil {
					t.Fatal(err)
				}
				if writes := f.WritesSince(before); len(writes) != stage.writes {
					t.Errorf("%s: writes %v, want %d", stage.name, writes, stage.writes)
				}
				stage.want.Name, stage.want.Binds = "reach", v1alpha1.PeerRoleBoth
				if policies := f.stored().Status.Policies; !slices.Contains(policies, stage.want) {
					t.Errorf("%s: policies %+v lack %+v", stage.name, policies, stage.want)
				}
			}
		})
	}
}
