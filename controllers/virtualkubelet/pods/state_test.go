// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/test/fakes"
)

// everything returns a podState with a value in every field.
func everything(t *testing.T, now time.Time) podState {
	t.Helper()
	created := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web", UID: "shadow"}}
	state := podState{
		local: localState{
			boundAt: now, offloaded: true, readyAt: now, unoffloadedAt: now, written: "1", postponedUntil: now,
			delayedUntil: now, removed: "pod",
			ending:   &ending{uid: "remote", since: now, givenUp: true},
			delivery: &delivery{pod: "pod", until: now},
			blocked:  [blockReasons]bool{overQuota: true, tooManyFinished: true},
		},
		shadow: shadowState{created: &creation{created, now}, deleted: &deletion{uid: "shadow", grace: -1}},
	}
	for _, part := range []reflect.Value{reflect.ValueOf(state.local), reflect.ValueOf(state.shadow)} {
		for i := range part.NumField() {
			if part.Field(i).IsZero() {
				t.Fatalf("the field %s is not set, so its end is not tested", part.Type().Field(i).Name)
			}
		}
	}
	return state
}

func TestStateOfADeletedPodIsDropped(t *testing.T) {
	for _, test := range []struct {
		name      string
		offloaded bool
		// passes is the number of reconciles after which the state must be empty.
		passes int
	}{
		// The first reconcile reads from the provider that the shadow pod, which was never cached, does not exist.
		{"with its shadow pod", true, 2},
		{"with its remote namespace", false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newKeeping(t, func(string) error { return nil })
			k.Reachable = func() bool { return true }
			extents := map[string]remotens.State{}
			if test.offloaded {
				synced := make(chan string, 1)
				watched, err := remotens.Start(
					t.Context(),
					remotens.Clients{Core: fakes.Followed(kubefake.NewClientset()), Federation: k.provider},
					v1alpha1.NamespaceMapping{Name: "demo", RemoteName: "demo-rome"},
					k.To,
					remotens.Events{
						Shadow: func(cache.ObjectName) {}, Pod: func(cache.ObjectName, *translate.RemotePod) {},
						Synced: func(name string) { synced <- name },
					},
				)
				if err != nil {
					t.Fatal(err)
				}
				<-synced
				extents["demo"] = remotens.State{Offloaded: true, Ready: true, Namespace: watched}
			}
			k.Namespaces = fixed(extents)
			pod := localPod("web")
			key := cache.MetaObjectToName(pod)
			state := everything(t, k.Clock.Now())
			k.states.change(key, func(s *podState) { *s = state })

			k.LocalEvents().OnDelete(pod)
			if left := k.states.read(key); left.local != (localState{}) || left.shadow != state.shadow {
				t.Errorf("after the end of the local pod %+v is left", left)
			}
			for range test.passes {
				if err := k.reconcile(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			if len(k.states.byKey) > 0 {
				t.Errorf("%+v is left", k.states.read(key))
			}
			for reason := range blockReasons {
				if left := k.states.someBlocked(reason, 1); len(left) > 0 {
					t.Errorf("%v still waits", left)
				}
			}
		})
	}
}

func TestPodOfTheSameNameStartsWithoutStateOfTheLast(t *testing.T) {
	k := newKeeping(t, func(string) error { return nil })
	last, next := localPod("web"), localPod("web")
	last.ResourceVersion, next.ResourceVersion, next.UID = "1", "2", "another"
	key := cache.MetaObjectToName(next)
	state := everything(t, k.Clock.Now())
	k.states.change(key, func(s *podState) { *s = state })
	k.LocalEvents().OnUpdate(last, next)
	if left := k.states.read(key); left.local != (localState{}) || left.shadow != state.shadow {
		t.Errorf("state %+v", left)
	}
}
