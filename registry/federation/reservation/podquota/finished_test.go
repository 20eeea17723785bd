// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podquota

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation/ledger"
)

func count(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(n, resource.DecimalSI)}
}

func TestConsumerMayKeepAsManyFinishedShadowPodsAsItMayRun(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits corev1.ResourceList
		want   int
	}{
		{"no quota", nil, 1000},
		{"quota below the lower bound", count(1), 1000},
		{"quota within the bounds", count(5000), 5000},
		{"quota above the upper bound", count(1_000_000), 12500},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := mayFinish(test.limits); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestTooManyFinishedShadowPodsPreventNewOnes(t *testing.T) {
	policy := within("milan", count(1))
	if _, err := policy(ledger.Used[quota.Sum]{Over: leastFinished - 1}, count(1)); err != nil {
		t.Errorf("one may still finish: %v", err)
	}
	_, err := policy(ledger.Used[quota.Sum]{Over: leastFinished}, count(1))
	var finished *ErrTooManyFinished
	if !errors.As(err, &finished) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(ErrTooManyFinished{Consumer: "milan", Finished: leastFinished, Most: leastFinished},
		*finished); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}
