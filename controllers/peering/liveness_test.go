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
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// watched is a consumer whose signs of life a provider looks for.
type watched struct {
	clock  *testingclock.FakePassiveClock
	events *record.FakeRecorder
	fc     *v1alpha1.ForeignCluster
	lease  *coordinationv1.Lease
	// fails is why the API server does not answer.
	fails error
	// reads and writes count what it was asked.
	reads, writes int
	removed       bool
}

func watch(fc *v1alpha1.ForeignCluster) *watched {
	fc.Status.TenantNamespace = "liqo-tenant-" + fc.Name
	return &watched{clock: testingclock.NewFakePassiveClock(now), events: record.NewFakeRecorder(100), fc: fc}
}

// process is a controller that knows nothing yet.
func (w *watched) process(orphanTTL time.Duration) *liveness {
	return &liveness{
		clock: w.clock, events: w.events, orphanTTL: orphanTTL, signs: map[string]*sign{},
		get: func(name string) (*v1alpha1.ForeignCluster, error) {
			if w.fc == nil {
				return nil, apierrors.NewNotFound(v1alpha1.Resource("foreignclusters"), name)
			}
			return w.fc, nil
		},
		getLease: func(context.Context, string) (*coordinationv1.Lease, error) {
			w.reads++
			switch {
			case w.fails != nil:
				return nil, w.fails
			case w.lease == nil:
				return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), naming.HeartbeatLease)
			}
			return w.lease.DeepCopy(), nil
		},
		createLease: func(_ context.Context, lease *coordinationv1.Lease) error {
			w.lease = lease.DeepCopy()
			return nil
		},
		commit: func(_ context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error) {
			if equality.Semantic.DeepEqual(old, wanted) {
				return false, nil
			}
			w.writes++
			w.fc = wanted
			return true, nil
		},
		remove: func(context.Context, *v1alpha1.ForeignCluster) error {
			w.removed = true
			return nil
		},
	}
}

// after lets time go by, in the steps that the controller takes.
func (w *watched) after(t *testing.T, l *liveness, d time.Duration) {
	t.Helper()
	for end := w.clock.Now().Add(d); ; {
		after, err := l.reconcile(t.Context(), cache.ObjectName{Name: "rome"})
		if err != nil {
			t.Fatal(err)
		}
		left := end.Sub(w.clock.Now())
		if after == 0 || left <= 0 || w.removed {
			return
		}
		w.clock.SetTime(w.clock.Now().Add(min(after, left)))
	}
}

// beat is a sign of life that says it is of some time.
func (w *watched) beat(at time.Time) {
	w.lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
}

func (w *watched) condition() metav1.Condition {
	if condition := meta.FindStatusCondition(w.fc.Status.Conditions, v1alpha1.ConditionConsumerAlive); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

func (w *watched) told() []string {
	var told []string
	for len(w.events.Events) > 0 {
		event := <-w.events.Events
		told = append(told, strings.Join(strings.Fields(event)[:2], " "))
	}
	return told
}

func TestAProviderSaysSinceWhenAConsumerIsSilent(t *testing.T) {
	w := watch(rome())
	l := w.process(0)
	for _, stage := range []struct {
		name   string
		happen func()
		wait   time.Duration
		status metav1.ConditionStatus
		reason string
		since  time.Duration
		told   []string
	}{
		{"it is not known yet", func() {}, time.Hour, metav1.ConditionUnknown, ReasonNoHeartbeat, 0, nil},
		{"it lives", func() { w.beat(now) }, heartbeatPeriod, metav1.ConditionTrue, ReasonHeartbeatReceived, 0, []string{"Normal " + ReasonHeartbeatReceived}},
		{"two heartbeats are lost", func() {}, 50 * time.Second, metav1.ConditionTrue, ReasonHeartbeatReceived, 0, nil},
		{"it is silent", func() {}, 20 * time.Second, metav1.ConditionFalse, ReasonConsumerSilent, time.Hour + heartbeatPeriod, []string{"Warning " + ReasonConsumerSilent}},
		{"it stays silent", func() {}, 10 * time.Hour, metav1.ConditionFalse, ReasonConsumerSilent, time.Hour + heartbeatPeriod, nil},
		{"it is back", func() { w.beat(now.Add(time.Hour)) }, heartbeatPeriod, metav1.ConditionTrue, ReasonHeartbeatReceived, 0, []string{"Normal " + ReasonHeartbeatReceived}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			stage.happen()
			w.after(t, l, stage.wait)
			got := w.condition()
			if got.Status != stage.status || got.Reason != stage.reason {
				t.Errorf("condition %+v", got)
			}
			if since := now.Add(stage.since); stage.since > 0 && (!got.LastTransitionTime.Time.Equal(since) || !strings.Contains(got.Message, since.UTC().Format(time.RFC3339))) {
				t.Errorf("silent since %s, want %s: %s", got.LastTransitionTime, since, got.Message)
			}
			if diff := cmp.Diff(stage.told, w.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	if w.removed || w.fc.Spec.Incoming != v1alpha1.PeeringEnabled {
		t.Error("a consumer without an orphanTTL is not kept")
	}
}

func TestAConsumerThatIsSilentForItsOrphanTTLIsLentToNoMore(t *testing.T) {
	ttl := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for _, test := range []struct {
		name      string
		change    func(*v1alpha1.ForeignCluster)
		orphanTTL time.Duration
		kept      time.Duration
		removed   bool
		disabled  bool
	}{
		{name: "as the installation says", change: func(*v1alpha1.ForeignCluster) {}, orphanTTL: time.Hour, kept: time.Hour - time.Second, removed: true},
		{name: "as its ForeignCluster says", change: func(fc *v1alpha1.ForeignCluster) { fc.Spec.Lending.OrphanTTL = ttl(time.Minute) }, orphanTTL: time.Hour, kept: 59 * time.Second, removed: true},
		{name: "for ever, as its ForeignCluster says", change: func(fc *v1alpha1.ForeignCluster) { fc.Spec.Lending.OrphanTTL = ttl(0) }, orphanTTL: time.Hour, kept: 10 * time.Hour},
		{name: "and this cluster borrows from it", change: func(fc *v1alpha1.ForeignCluster) { fc.Spec.Outgoing = v1alpha1.PeeringEnabled }, orphanTTL: time.Hour, kept: time.Hour - time.Second, disabled: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := rome()
			test.change(fc)
			w := watch(fc)
			l := w.process(test.orphanTTL)
			w.after(t, l, 0)
			w.clock.SetTime(now.Add(heartbeatPeriod))
			w.beat(now)
			w.after(t, l, test.kept)
			if w.removed || w.fc.Spec.Incoming != v1alpha1.PeeringEnabled {
				t.Fatalf("it ends before %s", test.kept)
			}
			w.told()
			w.after(t, l, heartbeatPeriod)
			if w.removed != test.removed || (w.fc.Spec.Incoming == v1alpha1.PeeringDisabled) != test.disabled {
				t.Errorf("removed %v, incoming %s", w.removed, w.fc.Spec.Incoming)
			}
			var want []string
			if test.removed || test.disabled {
				want = []string{"Warning " + ReasonOrphanTTLExpired}
			}
			if diff := cmp.Diff(want, w.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeitherATimeToComeNorOneLongPastKeepsAConsumerAlive(t *testing.T) {
	for name, says := range map[string]time.Time{"a time to come": now.Add(1000 * time.Hour), "a time long past": now.Add(-1000 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			w := watch(rome())
			l := w.process(time.Hour)
			w.after(t, l, 0)
			w.beat(says)
			w.after(t, l, 59*time.Minute)
			if w.removed {
				t.Fatal("it ends too early")
			}
			w.after(t, l, 2*time.Minute)
			if !w.removed {
				t.Error("it is kept")
			}
		})
	}
}

func TestAConsumerThatNeverGaveASignIsKept(t *testing.T) {
	w := watch(rome())
	w.after(t, w.process(time.Minute), 10*time.Hour)
	if w.removed {
		t.Error("a consumer of a version without heartbeats lost its peering")
	}
}

func TestAProvidersOwnAbsenceIsNotItsConsumersSilence(t *testing.T) {
	// silent is a consumer that has been silent for half an hour of the hour
	// that it has.
	silent := func(t *testing.T) (*watched, *liveness) {
		w := watch(rome())
		l := w.process(time.Hour)
		w.after(t, l, 0)
		w.beat(now)
		w.clock.SetTime(now.Add(heartbeatPeriod))
		w.after(t, l, 30*time.Minute)
		if w.condition().Reason != ReasonConsumerSilent {
			t.Fatalf("condition %+v", w.condition())
		}
		return w, l
	}
	t.Run("when it was not running, the hour begins again", func(t *testing.T) {
		w, _ := silent(t)
		since := w.condition().LastTransitionTime
		w.clock.SetTime(w.clock.Now().Add(10 * time.Hour))
		l := w.process(time.Hour)
		w.after(t, l, 59*time.Minute)
		if w.removed {
			t.Fatal("it ends too early")
		}
		if got := w.condition(); got.Reason != ReasonConsumerSilent || !got.LastTransitionTime.Equal(&since) {
			t.Errorf("since %s it was silent, and now: %+v", since, got)
		}
		w.after(t, l, time.Minute)
		if !w.removed {
			t.Error("it is kept")
		}
	})
	t.Run("when its API server did not answer, the hour goes on afterwards", func(t *testing.T) {
		w, l := silent(t)
		w.fails = errors.New("connection refused")
		w.clock.SetTime(w.clock.Now().Add(10 * time.Hour))
		if _, err := l.reconcile(t.Context(), cache.ObjectName{Name: "rome"}); err == nil {
			t.Fatal("nothing is wrong")
		}
		w.fails = nil
		w.after(t, l, 29*time.Minute)
		if w.removed {
			t.Fatal("it ends too early")
		}
		w.after(t, l, 2*time.Minute)
		if !w.removed {
			t.Error("it is kept")
		}
	})
	t.Run("and who comes back meanwhile lives", func(t *testing.T) {
		w, _ := silent(t)
		w.clock.SetTime(w.clock.Now().Add(10 * time.Hour))
		w.beat(now.Add(time.Hour))
		l := w.process(time.Hour)
		w.after(t, l, 0)
		w.clock.SetTime(w.clock.Now().Add(heartbeatPeriod))
		w.beat(now.Add(2 * time.Hour))
		w.after(t, l, 0)
		if got := w.condition(); got.Status != metav1.ConditionTrue {
			t.Errorf("condition %+v", got)
		}
	})
}

func TestLookingForSignsOfLifeIsCheap(t *testing.T) {
	w := watch(rome())
	l := w.process(0)
	w.after(t, l, 0)
	w.beat(now)
	w.after(t, l, time.Hour)
	w.reads, w.writes = 0, 0
	for range 100 {
		// Whatever happens to the ForeignCluster leads here.
		w.after(t, l, 0)
	}
	w.after(t, l, 10*time.Minute)
	if w.writes > 0 || w.reads > 31 {
		t.Errorf("%d writes and %d reads while nothing happened", w.writes, w.reads)
	}
}

func TestWhereNothingIsLentNobodyIsSilent(t *testing.T) {
	w := watch(rome())
	l := w.process(time.Hour)
	w.after(t, l, 0)
	if w.condition().Reason != ReasonNoHeartbeat {
		t.Fatalf("condition %+v", w.condition())
	}
	w.fc.Spec.Incoming = v1alpha1.PeeringDisabled
	w.after(t, l, 0)
	if got := w.condition(); got.Type != "" || len(l.signs) > 0 {
		t.Errorf("condition %+v, %d signs", got, len(l.signs))
	}
}
