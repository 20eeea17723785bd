// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestNodeIsNotReadyAfterChecksFailRepeatedly(t *testing.T) {
	unreachable := errors.New("connection refused")
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "resourceoffers"}, "milan", nil)
	tests := []struct {
		name string
		// results are the errors of consecutive checks; nil is a successful check.
		results []error
		status  corev1.ConditionStatus
		reason  string
		// back is whether Config.Back is called.
		back bool
	}{
		{
			name:    "one success at the start",
			results: []error{nil},
			status:  corev1.ConditionTrue,
			reason:  ReasonProviderReady,
			back:    true,
		},
		{
			name:    "one failure at the start",
			results: []error{unreachable},
			status:  corev1.ConditionFalse,
			reason:  ReasonProviderUnreachable,
		},
		{
			name:    "two failures",
			results: []error{nil, unreachable, unreachable},
			status:  corev1.ConditionTrue,
			reason:  ReasonProviderReady,
			back:    true,
		},
		{
			name:    "three consecutive failures",
			results: []error{nil, unreachable, unreachable, unreachable},
			status:  corev1.ConditionFalse,
			reason:  ReasonProviderUnreachable,
			back:    true,
		},
		{
			name:    "a success resets the count",
			results: []error{nil, unreachable, unreachable, nil, unreachable, unreachable},
			status:  corev1.ConditionTrue,
			reason:  ReasonProviderReady,
			back:    true,
		},
		{
			name:    "forbidden",
			results: []error{denied},
			status:  corev1.ConditionFalse,
			reason:  ReasonProviderDenies,
		},
		{
			name:    "one success after failures",
			results: []error{unreachable, unreachable, nil},
			status:  corev1.ConditionTrue,
			reason:  ReasonProviderReady,
			back:    true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			own, err := NewMetrics(metrics.NewKubeRegistry().Register)
			if err != nil {
				t.Fatal(err)
			}
			results := test.results
			back := make(chan struct{}, len(results))
			clock := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 1, 0, 0, 0, time.UTC))
			n := New(Config{
				Provider: "milan", Address: "10.1.0.9", Port: 10250, Clock: clock, Metrics: own,
				VirtualNode: func() *v1alpha1.VirtualNode {
					return &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan"}}
				},
				Back: func() { back <- struct{}{} },
				Check: func(context.Context) (string, error) {
					answer := results[0]
					results = results[1:]
					return "v1.37.1", answer
				},
			})
			node := n.Start(t.Context())
			since := node.Status.Conditions[0].LastTransitionTime
			for len(results) > 0 {
				clock.Step(time.Second)
				n.probe(t.Context())
			}
			node = n.Sync()
			ready := node.Status.Conditions[0]
			if ready.Status != test.status || ready.Reason != test.reason ||
				n.Reachable() != (test.status == corev1.ConditionTrue) {
				t.Errorf("Ready is %s, %s; want %s, %s", ready.Status, ready.Reason, test.status, test.reason)
			}
			if first := test.results[0] == nil; first == (ready.Status == corev1.ConditionTrue) &&
				!ready.LastTransitionTime.Equal(&since) {
				t.Error("the transition time changed without a transition")
			}
			if test.back {
				select {
				case <-back:
				case <-t.Context().Done():
				case <-time.After(10 * time.Second):
					t.Error("the provider that is reachable again was not reported")
				}
			}
		})
	}
}

func TestUnchangedNodeIsNotWritten(t *testing.T) {
	own, err := NewMetrics(metrics.NewKubeRegistry().Register)
	if err != nil {
		t.Fatal(err)
	}
	vn := &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan"}}
	n := New(Config{
		Provider: "milan", Clock: clocktesting.NewFakeClock(time.Now()), Metrics: own, Back: func() {},
		VirtualNode: func() *v1alpha1.VirtualNode { return vn },
		Check:       func(context.Context) (string, error) { return "v1.37.1", nil },
	})
	n.Start(t.Context())
	<-n.changed
	n.probe(t.Context())
	n.Sync()
	select {
	case <-n.changed:
		t.Error("an unchanged Node is written again")
	default:
	}
	vn = vn.DeepCopy()
	vn.Spec.Labels = map[string]string{"topology.liqo.io/region": "it"}
	n.Sync()
	select {
	case <-n.changed:
	default:
		t.Error("a changed label is not written")
	}
}
