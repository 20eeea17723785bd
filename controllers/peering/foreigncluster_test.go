// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// stepFunc is a step that is nothing but a function.
type stepFunc func(p *pass) (outcome, error)

func (f stepFunc) reconcile(_ context.Context, p *pass) (outcome, error) { return f(p) }

// driven is a reconciler over one ForeignCluster, and what it wrote.
type driven struct {
	fc     *v1alpha1.ForeignCluster
	writes int
	events *record.FakeRecorder
}

func (d *driven) pass(directions ...[]step) (time.Duration, error) {
	r := &reconciler{
		clock: testingclock.NewFakePassiveClock(now), events: d.events,
		get: func(name string) (*v1alpha1.ForeignCluster, error) {
			if d.fc == nil {
				return nil, apierrors.NewNotFound(v1alpha1.Resource("foreignclusters"), name)
			}
			return d.fc, nil
		},
		forget: func(string) {},
		commit: func(_ context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error) {
			if equality.Semantic.DeepEqual(old, wanted) {
				return false, nil
			}
			statusChanged := !equality.Semantic.DeepEqual(old.Status, wanted.Status)
			if statusChanged && (!equality.Semantic.DeepEqual(old.Spec, wanted.Spec) || !equality.Semantic.DeepEqual(old.ObjectMeta, wanted.ObjectMeta)) {
				return false, errors.New("spec and status in one pass")
			}
			d.writes++
			d.fc = wanted
			return true, nil
		},
		directions: directions,
	}
	return r.reconcile(context.Background(), cache.ObjectName{Name: "milan"})
}

func newDriven(fc *v1alpha1.ForeignCluster) *driven {
	return &driven{fc: fc, events: record.NewFakeRecorder(100)}
}

func established(p *pass) (outcome, error) {
	outgoingAspect.set(p.fc, v1alpha1.PeeringEstablished, ReasonOfferAccepted, "It works.")
	p.identity = &verdict{v1alpha1.PeeringEstablished, ReasonIdentityIssued, "It is there."}
	return goOn, nil
}

func TestAPassWithNothingToChangeWritesNothing(t *testing.T) {
	d := newDriven(milan())
	for i, want := range []int{1, 0, 0} {
		d.writes = 0
		if _, err := d.pass([]step{stepFunc(established)}); err != nil {
			t.Fatal(err)
		}
		if d.writes != want {
			t.Errorf("pass %d wrote %d times, want %d", i, d.writes, want)
		}
	}
	want := v1alpha1.ForeignClusterStatus{
		ObservedGeneration: 1,
		OutgoingPeering:    v1alpha1.PeeringEstablished, IncomingPeering: v1alpha1.PeeringNone,
		Networking: v1alpha1.PeeringNone, Authentication: v1alpha1.PeeringEstablished,
	}
	got := *d.fc.Status.DeepCopy()
	got.Conditions = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(d.fc.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("conditions %+v", d.fc.Status.Conditions)
	}
	if events := len(d.events.Events); events != 3 {
		t.Errorf("%d events, want one for each of OutgoingPeering, Authenticated and Ready", events)
	}
}

func TestTheFinalizerComesBeforeAnythingElse(t *testing.T) {
	fc := milan()
	fc.Finalizers = nil
	d := newDriven(fc)
	ran := false
	if _, err := d.pass([]step{stepFunc(func(*pass) (outcome, error) { ran = true; return goOn, nil })}); err != nil {
		t.Fatal(err)
	}
	if ran || len(d.fc.Finalizers) != 1 {
		t.Errorf("a step ran: %v, finalizers %v", ran, d.fc.Finalizers)
	}
}

func TestAChangedSpecIsWrittenAloneAndTheStatusWithTheNextPass(t *testing.T) {
	d := newDriven(milan())
	d.fc.Spec.ClusterID = ""
	learn := stepFunc(func(p *pass) (outcome, error) {
		outgoingAspect.set(p.fc, v1alpha1.PeeringPending, ReasonIdentityPending, "")
		if p.fc.Spec.ClusterID != "" {
			return goOn, nil
		}
		p.fc.Spec.ClusterID = milanID
		return wait, nil
	})
	for i, phase := range []v1alpha1.PeeringPhase{"", v1alpha1.PeeringPending} {
		if _, err := d.pass([]step{learn}); err != nil {
			t.Fatal(err)
		}
		if d.fc.Spec.ClusterID != milanID || d.fc.Status.OutgoingPeering != phase {
			t.Errorf("pass %d: cluster id %q, outgoing %q", i, d.fc.Spec.ClusterID, d.fc.Status.OutgoingPeering)
		}
	}
}

func TestADirectionThatFailsDoesNotHoldTheOtherBack(t *testing.T) {
	d := newDriven(milan())
	broken := stepFunc(func(p *pass) (outcome, error) {
		incomingAspect.set(p.fc, v1alpha1.PeeringPending, ReasonAwaitingConsumer, "")
		return goOn, errors.New("broken")
	})
	unreached := stepFunc(func(*pass) (outcome, error) { t.Error("a step ran behind one that failed"); return goOn, nil })
	_, err := d.pass([]step{broken, unreached}, []step{stepFunc(established)})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	if d.fc.Status.OutgoingPeering != v1alpha1.PeeringEstablished || d.fc.Status.IncomingPeering != v1alpha1.PeeringPending {
		t.Errorf("status %+v", d.fc.Status)
	}
}

func TestTheSoonestStepSaysWhenToLookAgain(t *testing.T) {
	in := func(after time.Duration) step {
		return stepFunc(func(*pass) (outcome, error) { return outcome{after: after}, nil })
	}
	after, err := newDriven(milan()).pass([]step{in(time.Hour), in(0)}, []step{in(time.Minute)})
	if err != nil || after != time.Minute {
		t.Errorf("after %v, %v", after, err)
	}
}

func TestTheFinalizerGoesWhenBothDirectionsAreUndone(t *testing.T) {
	fc := milan()
	fc.DeletionTimestamp = &metav1.Time{Time: now}
	d := newDriven(fc)
	phase := v1alpha1.PeeringDisconnecting
	undo := func(a aspect) step {
		return stepFunc(func(p *pass) (outcome, error) { a.set(p.fc, phase, ReasonDisabled, ""); return goOn, nil })
	}
	for i, stage := range []struct {
		phase      v1alpha1.PeeringPhase
		finalizers int
	}{{v1alpha1.PeeringDisconnecting, 1}, {v1alpha1.PeeringDisconnecting, 1}, {v1alpha1.PeeringNone, 1}, {v1alpha1.PeeringNone, 0}} {
		phase = stage.phase
		if _, err := d.pass([]step{undo(incomingAspect)}, []step{undo(outgoingAspect)}); err != nil {
			t.Fatal(err)
		}
		if len(d.fc.Finalizers) != stage.finalizers {
			t.Errorf("pass %d: finalizers %v", i, d.fc.Finalizers)
		}
	}
}

func TestProbe(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1alpha1.Resource("resourcerequests"), "rome", errors.New("no"))
	for _, test := range []struct {
		name    string
		before  v1alpha1.PeeringPhase
		err     error
		stop    bool
		phase   v1alpha1.PeeringPhase
		unready string
	}{
		{"a provider that answers", v1alpha1.PeeringEstablished, nil, false, v1alpha1.PeeringEstablished, ""},
		{"a new identity whose rights are on their way", v1alpha1.PeeringPending, forbidden, true, v1alpha1.PeeringPending, ""},
		{"an identity that was revoked", v1alpha1.PeeringEstablished, forbidden, true, v1alpha1.PeeringDenied, ""},
		{"a provider that does not answer", v1alpha1.PeeringEstablished, errors.New("no route to host"), false, v1alpha1.PeeringEstablished, ReasonProviderUnreachable},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &pass{fc: milan(), now: now}
			p.fc.Status.OutgoingPeering = test.before
			out, err := (&probeStep{probe: func(context.Context, string) error { return test.err }}).reconcile(t.Context(), p)
			if err != nil || out.stop != test.stop || out.after == 0 {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			if p.fc.Status.OutgoingPeering != test.phase {
				t.Errorf("outgoing %s", p.fc.Status.OutgoingPeering)
			}
			if (p.unready == nil) != (test.unready == "") || (p.unready != nil && p.unready.reason != test.unready) {
				t.Errorf("unready %+v", p.unready)
			}
		})
	}
}

func TestOneDirectionThatWorksDoesNotHideTheOther(t *testing.T) {
	good := &verdict{v1alpha1.PeeringEstablished, ReasonIdentityIssued, ""}
	bad := &verdict{v1alpha1.PeeringDenied, ReasonIdentityRevoked, ""}
	for _, test := range []struct {
		identity, tenant *verdict
		want             v1alpha1.PeeringPhase
	}{
		{nil, nil, v1alpha1.PeeringNone}, {good, nil, v1alpha1.PeeringEstablished}, {nil, good, v1alpha1.PeeringEstablished},
		{good, bad, v1alpha1.PeeringDenied}, {bad, good, v1alpha1.PeeringDenied}, {good, good, v1alpha1.PeeringEstablished},
	} {
		fc := milan()
		authAspect.summarize(fc, test.identity, test.tenant)
		if fc.Status.Authentication != test.want {
			t.Errorf("%+v and %+v make %s, want %s", test.identity, test.tenant, fc.Status.Authentication, test.want)
		}
	}
}

func TestPodsReachEachOtherWhereSomebodySaysSo(t *testing.T) {
	none, flat, tunnel := v1alpha1.NetworkingNone, v1alpha1.NetworkingFlat, v1alpha1.NetworkingTunnel
	for _, test := range []struct {
		name               string
		installation, said v1alpha1.NetworkingMode
		unwanted           bool
		want               v1alpha1.PeeringPhase
		before             v1alpha1.PeeringPhase
	}{
		{"nobody says so", "", "", false, v1alpha1.PeeringNone, ""},
		{"the installation says no", none, "", false, v1alpha1.PeeringNone, ""},
		{"the installation says so", flat, "", false, v1alpha1.PeeringEstablished, ""},
		{"of this cluster alone it is said", none, flat, false, v1alpha1.PeeringEstablished, ""},
		{"of this cluster alone it is not", flat, none, false, v1alpha1.PeeringNone, ""},
		{"there is no peering", flat, flat, true, v1alpha1.PeeringNone, ""},
		{"how a tunnel stands is said elsewhere", none, tunnel, false, v1alpha1.PeeringPending, v1alpha1.PeeringPending},
		{"or nowhere", tunnel, "", false, v1alpha1.PeeringNone, ""},
		{"a tunnel that is none any more is not what is flat", tunnel, none, false, v1alpha1.PeeringNone, v1alpha1.PeeringEstablished},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &pass{fc: milan(), now: now, networking: test.installation}
			p.fc.Spec.Networking, p.fc.Status.Networking = test.said, test.before
			if test.unwanted {
				p.fc.Spec.Outgoing, p.fc.Spec.Incoming = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisabled
			}
			if got := networking(p); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
