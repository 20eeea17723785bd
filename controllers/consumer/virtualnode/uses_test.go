// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"liqo.io/federation/controllers/kit/kittest"
)

func TestAccountsAreUsedWhileTheyHavePodsAndAMinuteLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock, changes := clocktesting.NewFakePassiveClock(kittest.Epoch), 0
		uses := newAccountUses(clock, func(node string) bool { return node == "liqo-milan" }, func(namespace string) {
			if namespace != "shop" {
				t.Fatalf("namespace %s changes", namespace)
			}
			changes++
		})
		count := func(account string, by int) bool {
			before := changes
			uses.Count("liqo-milan", &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{ServiceAccountName: account},
			}, by)
			return changes > before
		}
		names := rapid.SampledFrom([]string{"default", "robot"})
		pods, ended := map[string]int{}, map[string]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"a pod is added": func(t *rapid.T) {
				account := names.Draw(t, "account")
				pods[account]++
				if first := count(account, 1); first != (pods[account] == 1) {
					t.Fatalf("pod %d is the first one: %t", pods[account], first)
				}
			},
			"a pod is deleted": func(t *rapid.T) {
				account := names.Draw(t, "account")
				if pods[account] == 0 {
					return
				}
				if pods[account]--; pods[account] == 0 {
					ended[account] = clock.Now()
				}
				if last := count(account, -1); last != (pods[account] == 0) {
					t.Fatalf("with %d left it was the last one: %t", pods[account], last)
				}
			},
			"time passes": func(t *rapid.T) {
				clock.SetTime(clock.Now().Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second))
			},
			"": func(t *rapid.T) {
				got, retryAfter, known := uses.of("liqo-milan", "shop")
				if others, _, _ := uses.of("liqo-milan", "bank"); !known || len(others) > 0 {
					t.Fatalf("known: %t, in another namespace: %v", known, others)
				}
				var want []string
				for _, account := range []string{"default", "robot"} {
					left := ended[account].Add(accountLinger).Sub(clock.Now())
					if pods[account] > 0 || !ended[account].IsZero() && left > 0 {
						want = append(want, account)
					}
					if pods[account] == 0 && !ended[account].IsZero() && left > 0 && (retryAfter == 0 ||
						retryAfter > left) {
						t.Fatalf("%s ends in %s, the next pass is in %s", account, left, retryAfter)
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("accounts (-want +got):\n%s", diff)
				}
			},
		})
		if _, _, known := uses.of("liqo-paris", "shop"); known {
			t.Fatal("the pods of a node are known that was never watched")
		}
		uses.forget("liqo-milan")
		if left, _, _ := uses.of("liqo-milan", "shop"); len(left) > 0 {
			t.Fatalf("accounts %v of a node that was deleted", left)
		}
	})
}
