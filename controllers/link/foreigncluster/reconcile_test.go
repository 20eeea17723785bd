// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPassWithNothingToChangeWritesNothing(t *testing.T) {
	f := newFixture(t, milan())
	for i, want := range []int{1, 0, 0} {
		before := len(f.Writes)
		if _, err := f.pass(nil, []Step{stepFunc(established)}); err != nil {
			t.Fatal(err)
		}
		if writes := f.WritesSince(before); len(writes) != want {
			t.Errorf("pass %d wrote %v, want %d writes", i, writes, want)
		}
	}
	want := v1alpha1.ForeignClusterStatus{
		ObservedGeneration: 1,
		OutgoingPeering:    v1alpha1.PeeringEstablished, IncomingPeering: v1alpha1.PeeringNone,
		Networking: v1alpha1.PeeringNone, Authentication: v1alpha1.PeeringEstablished,
	}
	got := f.stored().Status
	if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("conditions %+v", got.Conditions)
	}
	if len(got.Policies) == 0 {
		t.Error("the status has no policies")
	}
	got.Conditions, got.Policies = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if events := f.Recorded(); len(events) != 3 {
		t.Errorf("events %q, want one for each of OutgoingPeering, Authenticated and Ready", events)
	}
}

func TestOneCauseHasOneEvent(t *testing.T) {
	const unreachable, pending = "The provider does not respond.", "The identity is not issued."
	identity := func(phase v1alpha1.PeeringPhase, reason, message string) Step {
		return stepFunc(func(p *Pass) (Outcome, error) {
			p.Identity = &Verdict{Phase: phase, Reason: reason, Message: message}
			Outgoing.Set(p.ForeignCluster, phase, reason, "%s", message)
			return Wait, nil
		})
	}
	f := newFixture(t, milan())
	for _, stage := range []struct {
		name string
		step Step
		want []string
	}{
		{
			"the provider is unreachable", identity(v1alpha1.PeeringPending, ReasonProviderUnreachable, unreachable),
			[]string{"Warning ProviderUnreachable " + unreachable},
		},
		{
			"it remains so, with another message", identity(v1alpha1.PeeringPending, ReasonProviderUnreachable, pending), nil,
		},
		{
			"the identity is pending", identity(v1alpha1.PeeringPending, ReasonIdentityPending, pending),
			[]string{"Normal IdentityPending " + pending},
		},
		{
			"the peering is established", stepFunc(established),
			[]string{
				"Normal OfferAccepted It works.", "Normal IdentityIssued It is issued.",
				"Normal Ready Every enabled direction of the peering is established.",
			},
		},
		{
			"the provider becomes unreachable", stepFunc(func(p *Pass) (Outcome, error) {
				p.Unready = &Verdict{Reason: ReasonProviderUnreachable, Message: unreachable}
				return established(p)
			}),
			[]string{"Warning ProviderUnreachable " + unreachable},
		},
	} {
		if _, err := f.pass(nil, []Step{stage.step}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stage.want, f.Recorded()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", stage.name, diff)
		}
	}
}

func TestFinalizerIsAddedBeforeAnyStep(t *testing.T) {
	fc := milan()
	fc.Finalizers = nil
	f := newFixture(t, fc)
	ran := false
	step := stepFunc(func(*Pass) (Outcome, error) { ran = true; return Continue, nil })
	if _, err := f.pass(nil, []Step{step}); err != nil {
		t.Fatal(err)
	}
	if finalizers := f.stored().Finalizers; ran || len(finalizers) != 1 {
		t.Errorf("a step ran: %v, finalizers %v", ran, finalizers)
	}
}

func TestDeletedForeignClusterIsDisconnected(t *testing.T) {
	f := newFixture(t)
	if _, err := f.pass(nil, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"milan"}, f.connections.removed); diff != "" {
		t.Errorf("disconnected (-want +got):\n%s", diff)
	}
}

func TestChangedSpecIsWrittenAloneAndTheStatusInTheNextPass(t *testing.T) {
	fc := milan()
	fc.Spec.ClusterID = ""
	f := newFixture(t, fc)
	learn := stepFunc(func(p *Pass) (Outcome, error) {
		Outgoing.Set(p.ForeignCluster, v1alpha1.PeeringPending, ReasonIdentityPending, "")
		if p.ForeignCluster.Spec.ClusterID != "" {
			return Continue, nil
		}
		p.ForeignCluster.Spec.ClusterID = milanID
		return Wait, nil
	})
	for i, phase := range []v1alpha1.PeeringPhase{"", v1alpha1.PeeringPending} {
		if _, err := f.pass(nil, []Step{learn}); err != nil {
			t.Fatal(err)
		}
		if fc := f.stored(); fc.Spec.ClusterID != milanID || fc.Status.OutgoingPeering != phase {
			t.Errorf("pass %d: cluster id %q, outgoing %q", i, fc.Spec.ClusterID, fc.Status.OutgoingPeering)
		}
	}
}

func TestFailureOfOneDirectionDoesNotHoldTheOther(t *testing.T) {
	f := newFixture(t, milan())
	broken := stepFunc(func(p *Pass) (Outcome, error) {
		Incoming.Set(p.ForeignCluster, v1alpha1.PeeringPending, ReasonAwaitingConsumer, "")
		return Continue, errors.New("broken")
	})
	unreached := stepFunc(func(*Pass) (Outcome, error) {
		t.Error("a step ran after one that failed")
		return Continue, nil
	})
	_, err := f.pass([]Step{broken, unreached}, []Step{stepFunc(established)})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	status := f.stored().Status
	if status.OutgoingPeering != v1alpha1.PeeringEstablished || status.IncomingPeering != v1alpha1.PeeringPending {
		t.Errorf("status %+v", status)
	}
}

func TestSoonestStepRequestsTheNextPass(t *testing.T) {
	in := func(after time.Duration) Step {
		return stepFunc(func(*Pass) (Outcome, error) { return Outcome{After: after}, nil })
	}
	after, err := newFixture(t, milan()).pass([]Step{in(time.Hour), in(0)}, []Step{in(time.Minute)})
	if err != nil || after != time.Minute {
		t.Errorf("after %v, %v", after, err)
	}
}

func TestFinalizerIsRemovedWhenBothDirectionsEnded(t *testing.T) {
	fc := milan()
	fc.DeletionTimestamp = &metav1.Time{Time: now}
	f := newFixture(t, fc)
	phase := v1alpha1.PeeringDisconnecting
	undo := func(a Aspect) []Step {
		return []Step{stepFunc(func(p *Pass) (Outcome, error) {
			a.Set(p.ForeignCluster, phase, ReasonDisabled, "")
			return Continue, nil
		})}
	}
	for i, stage := range []struct {
		phase v1alpha1.PeeringPhase
		holds bool
	}{
		{v1alpha1.PeeringDisconnecting, true}, {v1alpha1.PeeringDisconnecting, true},
		{v1alpha1.PeeringNone, true}, {v1alpha1.PeeringNone, false},
	} {
		phase = stage.phase
		if _, err := f.pass(undo(Incoming), undo(Outgoing)); err != nil {
			t.Fatal(err)
		}
		// The API server deletes the object together with its last finalizer.
		stored := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
		if holds := f.Has(stored) && slices.Contains(stored.Finalizers, v1alpha1.Finalizer); holds != stage.holds {
			t.Errorf("pass %d: the finalizer holds the object: %t", i, holds)
		}
	}
}
