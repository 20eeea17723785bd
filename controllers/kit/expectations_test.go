// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestCreatedObjectsArePendingUntilTheyAreObserved(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid}}
	}
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	for _, test := range []struct {
		name string
		then func(*Expectations, *clocktesting.FakePassiveClock)
		want bool
	}{
		{"not observed", func(*Expectations, *clocktesting.FakePassiveClock) {}, true},
		{"observed", func(e *Expectations, _ *clocktesting.FakePassiveClock) { e.Observe(pod("new")) }, false},
		{"object of the same name with another UID observed", func(e *Expectations, _ *clocktesting.FakePassiveClock) { e.Observe(pod("old")) }, true},
		{"never observed", func(_ *Expectations, c *clocktesting.FakePassiveClock) { c.SetTime(c.Now().Add(CacheLag)) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			expectations := NewExpectations(clock)
			expectations.Expect(pod("new"))
			test.then(expectations, clock)
			if got := expectations.Pending(key); got != test.want {
				t.Errorf("pending: %v, want %v", got, test.want)
			}
		})
	}
}
