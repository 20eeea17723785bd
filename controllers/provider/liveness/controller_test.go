// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

var now = kittest.Epoch

// provider is a fake cluster that observes the heartbeats of its consumer rome.
type provider struct {
	*kittest.Cluster
	t *testing.T
	// If err is not nil, all reads from the API server fail with it. reads counts the reads.
	err   error
	reads int
}

// live implements client.Reader, and reads from the API server of the fake provider.
type live struct{ *provider }

func (l live) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	l.reads++
	if l.err != nil {
		return l.err
	}
	return l.provider.Get(ctx, key, object, options...)
}

func newProvider(t *testing.T, changes ...func(*v1alpha1.ForeignCluster)) *provider {
	fc := kittest.ForeignCluster("rome", "rome-id", v1alpha1.PeeringDisabled, v1alpha1.PeeringEnabled)
	fc.Status.TenantNamespace = "liqo-tenant-rome"
	for _, change := range changes {
		change(fc)
	}
	return &provider{Cluster: kittest.New(t, fc), t: t}
}

// process returns a controller that has read no Lease yet, as after a restart.
func (p *provider) process(orphanTTL time.Duration) *Reconciler {
	return &Reconciler{Client: p.Controller, Live: live{p}, Events: p.Events, Clock: p.Clock, OrphanTTL: orphanTTL}
}

// after advances the clock by d, and reconciles as often as the controller requests.
func (p *provider) after(r *Reconciler, d time.Duration) {
	p.t.Helper()
	for end := p.Clock.Now().Add(d); ; {
		result, err := r.Reconcile(p.t.Context(), kit.Request("", "rome"))
		if err != nil {
			p.t.Fatal(err)
		}
		left := end.Sub(p.Clock.Now())
		if result.RequeueAfter == 0 || left <= 0 || p.ended() {
			return
		}
		p.Clock.Step(min(result.RequeueAfter, left))
	}
}

func (p *provider) fc() *v1alpha1.ForeignCluster {
	p.t.Helper()
	return kittest.Read(p.Cluster, "", "rome", &v1alpha1.ForeignCluster{})
}

// ended reports whether the ForeignCluster is being deleted.
func (p *provider) ended() bool {
	p.t.Helper()
	return p.fc().DeletionTimestamp != nil
}

// renew renews the Lease with a renewTime, which may differ from the clock of the provider.
func (p *provider) renew(at time.Time) {
	p.t.Helper()
	kittest.Change(p.Cluster, "liqo-tenant-rome", naming.HeartbeatLease, &coordinationv1.Lease{},
		func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = &metav1.MicroTime{Time: at} })
}

func (p *provider) condition() metav1.Condition {
	p.t.Helper()
	if condition := meta.FindStatusCondition(p.fc().Status.Conditions, v1alpha1.ConditionConsumerAlive); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// recorded returns the types and reasons of the events since the last call.
func (p *provider) recorded() []string {
	var all []string
	for _, event := range p.Recorded() {
		all = append(all, strings.Join(strings.Fields(event)[:2], " "))
	}
	return all
}

func TestMissingHeartbeatIsReportedWithItsTime(t *testing.T) {
	p := newProvider(t)
	r := p.process(0)
	for _, stage := range []struct {
		name     string
		happen   func()
		wait     time.Duration
		status   metav1.ConditionStatus
		reason   string
		since    time.Duration
		recorded []string
	}{
		{"before the first heartbeat", func() {}, time.Hour, metav1.ConditionUnknown, ReasonNoHeartbeat, 0, nil},
		{"heartbeat", func() { p.renew(now) }, naming.HeartbeatInterval,
			metav1.ConditionTrue, ReasonHeartbeatReceived, 0, []string{"Normal " + ReasonHeartbeatReceived}},
		{"two heartbeats are missing", func() {}, 50 * time.Second, metav1.ConditionTrue, ReasonHeartbeatReceived, 0, nil},
		{"heartbeat expired", func() {}, 20 * time.Second,
			metav1.ConditionFalse, ReasonHeartbeatExpired, time.Hour + naming.HeartbeatInterval,
			[]string{"Warning " + ReasonHeartbeatExpired}},
		{"heartbeat expired long ago", func() {}, 2 * time.Hour,
			metav1.ConditionFalse, ReasonHeartbeatExpired, time.Hour + naming.HeartbeatInterval, nil},
		{"heartbeat again", func() { p.renew(now.Add(time.Hour)) }, naming.HeartbeatInterval,
			metav1.ConditionTrue, ReasonHeartbeatReceived, 0, []string{"Normal " + ReasonHeartbeatReceived}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			stage.happen()
			p.after(r, stage.wait)
			got := p.condition()
			if got.Status != stage.status || got.Reason != stage.reason {
				t.Errorf("condition %+v", got)
			}
			since := now.Add(stage.since)
			if stage.since > 0 && (!got.LastTransitionTime.Time.Equal(since) ||
				!strings.Contains(got.Message, since.UTC().Format(time.RFC3339))) {
				t.Errorf("expired since %s, want %s: %s", got.LastTransitionTime, since, got.Message)
			}
			if diff := cmp.Diff(stage.recorded, p.recorded()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	if p.ended() || p.fc().Spec.Incoming != v1alpha1.PeeringEnabled {
		t.Error("a consumer without an orphanTTL is not kept")
	}
}

func TestExpiredOrphanTTLEndsTheIncomingPeering(t *testing.T) {
	withTTL := func(d time.Duration) func(*v1alpha1.ForeignCluster) {
		return func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy.OrphanTTL = &metav1.Duration{Duration: d} }
	}
	outgoing := func(fc *v1alpha1.ForeignCluster) { fc.Spec.Outgoing = v1alpha1.PeeringEnabled }
	for _, test := range []struct {
		name     string
		change   func(*v1alpha1.ForeignCluster)
		kept     time.Duration
		removed  bool
		disabled bool
	}{
		{name: "of the installation", change: func(*v1alpha1.ForeignCluster) {}, kept: time.Hour - time.Second,
			removed: true},
		{name: "of the ForeignCluster", change: withTTL(time.Minute), kept: 59 * time.Second, removed: true},
		{name: "unlimited by the ForeignCluster", change: withTTL(0), kept: 2 * time.Hour},
		{name: "with an outgoing peering", change: outgoing, kept: time.Hour - time.Second, disabled: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProvider(t, test.change)
			r := p.process(time.Hour)
			p.after(r, 0)
			p.Clock.SetTime(now.Add(naming.HeartbeatInterval))
			p.renew(now)
			p.after(r, test.kept)
			if p.ended() || p.fc().Spec.Incoming != v1alpha1.PeeringEnabled {
				t.Fatalf("the peering ends before %s", test.kept)
			}
			p.recorded()
			p.after(r, naming.HeartbeatInterval)
			if p.ended() != test.removed || (p.fc().Spec.Incoming == v1alpha1.PeeringDisabled) != test.disabled {
				t.Errorf("deleted %v, incoming %s", p.ended(), p.fc().Spec.Incoming)
			}
			var want []string
			if test.removed || test.disabled {
				want = []string{"Warning " + ReasonOrphanTTLExpired}
			}
			if diff := cmp.Diff(want, p.recorded()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeInAHeartbeatDoesNotKeepAConsumerAlive(t *testing.T) {
	for name, at := range map[string]time.Time{"future": now.Add(1000 * time.Hour), "past": now.Add(-1000 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			r := p.process(time.Hour)
			p.after(r, 0)
			p.renew(at)
			p.after(r, 59*time.Minute)
			if p.ended() {
				t.Fatal("the peering ends too early")
			}
			p.after(r, 2*time.Minute)
			if !p.ended() {
				t.Error("the peering is kept")
			}
		})
	}
}

func TestConsumerThatNeverSentAHeartbeatIsKept(t *testing.T) {
	p := newProvider(t)
	p.after(p.process(time.Minute), 2*time.Hour)
	if p.ended() {
		t.Error("a consumer of a version without heartbeats lost its peering")
	}
}

func TestTimeWithoutObservationDoesNotExpireHeartbeats(t *testing.T) {
	// halfExpired returns a provider after half of the orphanTTL has passed without a heartbeat.
	halfExpired := func(t *testing.T) (*provider, *Reconciler) {
		p := newProvider(t)
		r := p.process(time.Hour)
		p.after(r, 0)
		p.renew(now)
		p.Clock.SetTime(now.Add(naming.HeartbeatInterval))
		p.after(r, 30*time.Minute)
		if p.condition().Reason != ReasonHeartbeatExpired {
			t.Fatalf("condition %+v", p.condition())
		}
		return p, r
	}
	t.Run("after a restart the orphanTTL begins again", func(t *testing.T) {
		p, _ := halfExpired(t)
		since := p.condition().LastTransitionTime
		p.Clock.Step(10 * time.Hour)
		r := p.process(time.Hour)
		p.after(r, 59*time.Minute)
		if p.ended() {
			t.Fatal("the peering ends too early")
		}
		if got := p.condition(); got.Reason != ReasonHeartbeatExpired || !got.LastTransitionTime.Equal(&since) {
			t.Errorf("expired since %s, and now: %+v", since, got)
		}
		p.after(r, time.Minute)
		if !p.ended() {
			t.Error("the peering is kept")
		}
	})
	t.Run("after failed reads the orphanTTL continues", func(t *testing.T) {
		p, r := halfExpired(t)
		p.err = errors.New("connection refused")
		p.Clock.Step(10 * time.Hour)
		if _, err := r.Reconcile(t.Context(), kit.Request("", "rome")); err == nil {
			t.Fatal("no error")
		}
		p.err = nil
		p.after(r, 29*time.Minute)
		if p.ended() {
			t.Fatal("the peering ends too early")
		}
		p.after(r, 2*time.Minute)
		if !p.ended() {
			t.Error("the peering is kept")
		}
	})
	t.Run("heartbeats after a restart are received", func(t *testing.T) {
		p, _ := halfExpired(t)
		p.Clock.Step(10 * time.Hour)
		p.renew(now.Add(time.Hour))
		r := p.process(time.Hour)
		p.after(r, 0)
		p.Clock.Step(naming.HeartbeatInterval)
		p.renew(now.Add(2 * time.Hour))
		p.after(r, 0)
		if got := p.condition(); got.Status != metav1.ConditionTrue {
			t.Errorf("condition %+v", got)
		}
	})
}

func TestObservationOfHeartbeatsIsCheap(t *testing.T) {
	p := newProvider(t)
	r := p.process(0)
	p.after(r, 0)
	p.renew(now)
	p.after(r, time.Hour)
	p.reads, p.Writes = 0, nil
	for range 100 {
		// Each change of the ForeignCluster requests a pass.
		p.after(r, 0)
	}
	p.after(r, 10*time.Minute)
	if len(p.Writes) > 0 || p.reads > 31 {
		t.Errorf("%d writes and %d reads while nothing changed", len(p.Writes), p.reads)
	}
}

func TestConsumerWithoutAnIncomingPeeringIsNotObserved(t *testing.T) {
	p := newProvider(t)
	r := p.process(time.Hour)
	p.after(r, 0)
	if p.condition().Reason != ReasonNoHeartbeat {
		t.Fatalf("condition %+v", p.condition())
	}
	kittest.Change(p.Cluster, "", "rome", &v1alpha1.ForeignCluster{}, func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Incoming = v1alpha1.PeeringDisabled
	})
	p.after(r, 0)
	if got := p.condition(); got.Type != "" || len(r.heartbeats) > 0 {
		t.Errorf("condition %+v, %d heartbeats", got, len(r.heartbeats))
	}
}
